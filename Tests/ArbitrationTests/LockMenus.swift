// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Those who take part in small worlds.
enum Cast {
    static let parent = Party(process: ProcessID(number: 100, started: 1), ancestors: [])
    static let child = Party(
        process: ProcessID(number: 101, started: 1), ancestors: [ProcessID(number: 100, started: 1)],
        programClass: .background)
    static let sibling = Party(
        process: ProcessID(number: 102, started: 1), ancestors: [ProcessID(number: 100, started: 1)])
    static let stranger = Party(process: ProcessID(number: 200, started: 1), ancestors: [])
    static let other = Party(process: ProcessID(number: 300, started: 1), ancestors: [])
    static let editor = Party(process: ProcessID(number: 50, started: 1), ancestors: [])
    static let worker = Party(
        process: ProcessID(number: 51, started: 1), ancestors: [ProcessID(number: 50, started: 1)])
    static let viewer = Party(process: ProcessID(number: 60, started: 1), ancestors: [])

    static func aware(_ purpose: String, _ party: Party = stranger) -> Party {
        var party = party
        party.purpose = Purpose(purpose)
        return party
    }

    static func thread(_ number: Int32, of party: Party) -> Party {
        var party = party
        party.thread = number
        return party
    }
}

/// Things in small worlds.
enum Things {
    static let document = ItemID(1)
    static let read = Request.Part(document, .read())
    static let write = Request.Part(document, .write(.updating))
    static let otherRead = Request.Part(ItemID(2), .read())
    static let otherWrite = Request.Part(ItemID(2), .write(.updating))
    static let delete = Request.Part(document, .write(.forDeleting))

    static func reading(_ item: UInt64, in directory: UInt64? = nil) -> Request.Part {
        Request.Part(ItemID(item), .read(), at: Place(in: directory.map { ItemID($0) }))
    }

    static func writing(
        _ item: UInt64, in directory: UInt64? = nil, _ option: WritingOption = .updating
    ) -> Request.Part {
        Request.Part(ItemID(item), .write(option), at: Place(in: directory.map { ItemID($0) }))
    }
}

/// Worlds of one or two items without presenters.
extension Menu {
    static let locks = [
        Menu(
            name: "Q1, Q2: readers and writers come and go",
            claims: [Form(.handle, Things.read), Form(.handle, Things.write)], depth: 7),
        Menu(
            name: "X1, X2, X3, Q3: who is who is told at any time",
            claims: [Form(.handle, Things.read), Form(.handle, Things.write)],
            parties: [Cast.parent, Cast.stranger], depth: 6),
        Menu(
            name: "Q3, T2, T6: relatives and strangers in turn, some are forced",
            claims: [Form(.handle, Things.read), Form(.handle, Things.write)],
            parties: [Cast.parent, Cast.stranger, Cast.child], isIdentifiedAtOnce: true, canForce: true,
            canEndWait: true,
            depth: 7),
        Menu(
            name: "G1, Q3: one item, the other, or both",
            claims: [
                Form(.handle, Things.write), Form(.handle, Things.otherRead),
                Form(.aware, Things.write, Things.otherWrite),
            ], parties: [Cast.parent, Cast.stranger], isIdentifiedAtOnce: true, depth: 6),
        Menu(
            name: "G3, G4, G5, B1, Y7, T1: every nature",
            claims: [
                Form(.handle, Things.read), Form(.handle, Things.write), Form(.request, Things.write),
                Form(.nameChange, Things.delete), Form(.episode, Things.write),
                Form(.aware, Things.write, by: Cast.aware("a")),
                Form(.batch, Things.write, by: Cast.aware("b")),
            ], parties: [Cast.stranger, Cast.parent], isIdentifiedAtOnce: true, spans: [.milliseconds(65)],
            depth: 5),
        Menu(
            name: "Y1 to Y6, X4: writers and readers are looked at",
            claims: [Form(.handle, Things.read), Form(.handle, Things.write)],
            parties: [Cast.parent, Cast.stranger], isIdentifiedAtOnce: true,
            observations: [.clean, .untouched, .dirty(stamp: 1), .dirty(stamp: 2), .reading(position: 1)],
            spans: [.milliseconds(40)], depth: 6),
        Menu(
            name: "Y5, Y6, Y9, X4: writers that have changed nothing, and then have",
            claims: [Form(.handle, Things.read), Form(.handle, Things.write)],
            parties: [Cast.parent, Cast.stranger], isIdentifiedAtOnce: true,
            observations: [
                .unchanged(position: 0), .unchanged(position: 1), .dirty(stamp: 1), .finishing(position: 1),
            ],
            spans: [.milliseconds(30), .milliseconds(40)], depth: 6),
        Menu(
            name: "X6, X4, Q2: who appends, reads and writes",
            claims: [
                Form(.handle, Things.read), Form(.handle, Things.write),
                Form(.handle, Things.write, conduct: .appends),
            ], parties: [Cast.parent, Cast.stranger], isIdentifiedAtOnce: true,
            observations: [.clean, .dirty(stamp: 1)], spans: [.milliseconds(40)], depth: 6),
        Menu(
            name: "X6, Y10, Q3: programs are seen to lock a file",
            claims: [
                Form(.handle, Things.read), Form(.handle, Things.write),
                Form(.handle, Things.write, conduct: .locks),
            ], parties: [Cast.parent, Cast.stranger, Cast.child], isIdentifiedAtOnce: true,
            canLock: true, spans: [.milliseconds(40)], depth: 5),
        Menu(
            name: "T1, T3, T4: time passes in odd steps, policy fail",
            claims: [Form(.handle, Things.read), Form(.handle, Things.write)],
            spans: [.milliseconds(25), .milliseconds(95)], bounds: failing, depth: 6),
        Menu(
            name: "X5, G4, Y6: purposes",
            claims: [
                Form(.aware, Things.read, by: Cast.aware("a")),
                Form(.aware, Things.write, by: Cast.aware("b")),
                Form(.aware, Things.write, by: Cast.aware("a")),
                Form(.handle, Things.write, by: Cast.stranger),
                Form(.nameChange, Things.delete, by: Cast.other),
            ], spans: [.milliseconds(75)], depth: 5),
        Menu(
            name: "R1, R2, R3: items change hands",
            claims: [
                Form(.handle, Things.read), Form(.handle, Things.write), Form(.handle, Things.otherWrite),
                Form(.request, Things.write),
            ], parties: [Cast.parent, Cast.stranger], isIdentifiedAtOnce: true,
            facts: [
                .vacated(document: ItemID(1), orphan: ItemID(3)),
                .replaced(document: ItemID(1), incoming: ItemID(2), orphan: ItemID(4)),
                .replaced(document: ItemID(1), incoming: ItemID(2), orphan: nil),
            ], depth: 6),
    ]

    static let deadlocks = [
        Menu(
            name: "D1, D2, D3: two programs, two items, one holds what the other wants",
            claims: [
                Form(.handle, Things.write, by: Cast.parent),
                Form(.handle, Things.otherWrite, by: Cast.parent),
                Form(.handle, Things.read, by: Cast.stranger),
                Form(.handle, Things.otherWrite, by: Cast.stranger),
            ], depth: 6),
        Menu(
            name: "D1: threads of one program",
            claims: [
                Form(.handle, Things.write, by: Cast.thread(1, of: Cast.parent)),
                Form(.handle, Things.otherWrite, by: Cast.thread(2, of: Cast.parent)),
                Form(.handle, Things.otherWrite, by: Cast.stranger),
                Form(.handle, Things.write, by: Cast.stranger),
            ], depth: 6),
        Menu(
            name: "D3, D4: aware accesses within others",
            claims: [
                Form(.aware, Things.write, by: Cast.aware("a")),
                Form(.aware, Things.otherWrite, by: Cast.aware("b", Cast.other)),
                Form(.aware, Things.otherWrite, by: Cast.aware("a"), isNested: true),
                Form(.aware, Things.write, by: Cast.aware("b", Cast.other), isNested: true),
                Form(.handle, Things.read, by: Cast.parent),
                Form(.handle, Things.otherWrite, by: Cast.parent),
            ], depth: 5),
        Menu(
            name: "D2, D3: an answer waits for a claim, and that for the one who asks",
            setup: [.presented(Presenter(PresenterID(1), of: ItemID(1), by: Cast.editor, .all))],
            claims: [
                Form(.handle, Things.read, by: Cast.stranger),
                Form(.aware, Things.write, by: Cast.aware("e", Cast.other), isAnswer: true),
                Form(.request, Things.write, by: Cast.parent, isAnswer: true),
                Form(.aware, Things.write, by: Cast.aware("a")),
                Form(.handle, Things.write, by: Cast.other),
            ], answers: [.done, .failed], depth: 5),
    ]

    static var failing: Bounds {
        var bounds = shortBounds
        bounds.policy = .fail
        return bounds
    }
}
