// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The parties that make claims in small worlds.
enum TestParties {
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

/// The parts from which the claims in small worlds are made.
enum TestParts {
    static let document = ItemID(1)
    static let read = ClaimRequest.Part(document, .read())
    static let write = ClaimRequest.Part(document, .write(.updating))
    static let otherRead = ClaimRequest.Part(ItemID(2), .read())
    static let otherWrite = ClaimRequest.Part(ItemID(2), .write(.updating))
    static let delete = ClaimRequest.Part(document, .write(.forDeleting))

    static func reading(_ item: UInt64, in directory: UInt64? = nil) -> ClaimRequest.Part {
        ClaimRequest.Part(ItemID(item), .read(), at: Place(in: directory.map { ItemID($0) }))
    }

    static func writing(
        _ item: UInt64, in directory: UInt64? = nil, _ option: WritingOption = .updating
    ) -> ClaimRequest.Part {
        ClaimRequest.Part(ItemID(item), .write(option), at: Place(in: directory.map { ItemID($0) }))
    }
}

/// Menus, the possible events of simulations, with one or two items and without presenters.
extension Menu {
    static let locks = [
        Menu(
            name: "Q1, Q2: claims to read and write begin and end",
            claims: [ClaimTemplate(.handle, TestParts.read), ClaimTemplate(.handle, TestParts.write)],
            depth: 7),
        Menu(
            name: "X1, X2, X3, Q3: claims are identified at any time",
            claims: [ClaimTemplate(.handle, TestParts.read), ClaimTemplate(.handle, TestParts.write)],
            parties: [TestParties.parent, TestParties.stranger], depth: 6),
        Menu(
            name: "Q3, T2, T6: claims of relatives and unrelated programs, some of them forced",
            claims: [ClaimTemplate(.handle, TestParts.read), ClaimTemplate(.handle, TestParts.write)],
            parties: [TestParties.parent, TestParties.stranger, TestParties.child], isIdentifiedAtOnce: true,
            canForce: true,
            canEndWait: true,
            depth: 7),
        Menu(
            name: "G1, Q3: claims on one of two items, or on both",
            claims: [
                ClaimTemplate(.handle, TestParts.write), ClaimTemplate(.handle, TestParts.otherRead),
                ClaimTemplate(.aware, TestParts.write, TestParts.otherWrite),
            ], parties: [TestParties.parent, TestParties.stranger], isIdentifiedAtOnce: true, depth: 6),
        Menu(
            name: "G3, G4, G5, B1, Y7, T1: claims of every nature",
            claims: [
                ClaimTemplate(.handle, TestParts.read), ClaimTemplate(.handle, TestParts.write),
                ClaimTemplate(.handleless, TestParts.write),
                ClaimTemplate(.nameChange, TestParts.delete), ClaimTemplate(.pendingSave, TestParts.write),
                ClaimTemplate(.aware, TestParts.write, by: TestParties.aware("a")),
                ClaimTemplate(.batch, TestParts.write, by: TestParties.aware("b")),
            ], parties: [TestParties.stranger, TestParties.parent], isIdentifiedAtOnce: true,
            spans: [.milliseconds(65)],
            depth: 5),
        Menu(
            name: "Y1 to Y6, X4: writers and readers are observed",
            claims: [ClaimTemplate(.handle, TestParts.read), ClaimTemplate(.handle, TestParts.write)],
            parties: [TestParties.parent, TestParties.stranger], isIdentifiedAtOnce: true,
            observations: [.clean, .emptied, .dirty(stamp: 1), .dirty(stamp: 2), .reading(position: 1)],
            spans: [.milliseconds(40)], depth: 6),
        Menu(
            name: "Y5, Y6, Y9, X4: writers that change the file late or never",
            claims: [ClaimTemplate(.handle, TestParts.read), ClaimTemplate(.handle, TestParts.write)],
            parties: [TestParties.parent, TestParties.stranger], isIdentifiedAtOnce: true,
            observations: [
                .unchanged(position: 0), .unchanged(position: 1), .dirty(stamp: 1),
                .atEndUnconfirmed(position: 1),
            ],
            spans: [.milliseconds(30), .milliseconds(40)], depth: 6),
        Menu(
            name: "X6, X4, Q2: appending, reading and writing programs",
            claims: [
                ClaimTemplate(.handle, TestParts.read), ClaimTemplate(.handle, TestParts.write),
                ClaimTemplate(.handle, TestParts.write, accessPattern: .appends),
            ], parties: [TestParties.parent, TestParties.stranger], isIdentifiedAtOnce: true,
            observations: [.clean, .dirty(stamp: 1)], spans: [.milliseconds(40)], depth: 6),
        Menu(
            name: "X6, Y10, Q3: programs are seen to lock a file",
            claims: [
                ClaimTemplate(.handle, TestParts.read), ClaimTemplate(.handle, TestParts.write),
                ClaimTemplate(.handle, TestParts.write, accessPattern: .locks),
            ], parties: [TestParties.parent, TestParties.stranger, TestParties.child],
            isIdentifiedAtOnce: true,
            canLock: true, spans: [.milliseconds(40)], depth: 5),
        Menu(
            name: "T1, T3, T4: time passes in odd steps, policy fail",
            claims: [ClaimTemplate(.handle, TestParts.read), ClaimTemplate(.handle, TestParts.write)],
            spans: [.milliseconds(25), .milliseconds(95)], bounds: failing, depth: 6),
        Menu(
            name: "X5, G4, Y6: claims with and without purposes",
            claims: [
                ClaimTemplate(.aware, TestParts.read, by: TestParties.aware("a")),
                ClaimTemplate(.aware, TestParts.write, by: TestParties.aware("b")),
                ClaimTemplate(.aware, TestParts.write, by: TestParties.aware("a")),
                ClaimTemplate(.handle, TestParts.write, by: TestParties.stranger),
                ClaimTemplate(.nameChange, TestParts.delete, by: TestParties.other),
            ], spans: [.milliseconds(75)], depth: 5),
        Menu(
            name: "R1, R2, R3: a name is vacated or replaced",
            claims: [
                ClaimTemplate(.handle, TestParts.read), ClaimTemplate(.handle, TestParts.write),
                ClaimTemplate(.handle, TestParts.otherWrite),
                ClaimTemplate(.handleless, TestParts.write),
            ], parties: [TestParties.parent, TestParties.stranger], isIdentifiedAtOnce: true,
            facts: [
                .vacated(document: ItemID(1), orphan: ItemID(3)),
                .replaced(document: ItemID(1), incoming: ItemID(2), orphan: ItemID(4)),
                .replaced(document: ItemID(1), incoming: ItemID(2), orphan: nil),
            ], depth: 6),
    ]

    static let deadlocks = [
        Menu(
            name: "D1, D2, D3: each of two programs holds the item that the other wants",
            claims: [
                ClaimTemplate(.handle, TestParts.write, by: TestParties.parent),
                ClaimTemplate(.handle, TestParts.otherWrite, by: TestParties.parent),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.stranger),
                ClaimTemplate(.handle, TestParts.otherWrite, by: TestParties.stranger),
            ], canClose: true, depth: 6),
        Menu(
            name: "D1: claims of several threads of one program",
            claims: [
                ClaimTemplate(.handle, TestParts.write, by: TestParties.thread(1, of: TestParties.parent)),
                ClaimTemplate(
                    .handle, TestParts.otherWrite, by: TestParties.thread(2, of: TestParties.parent)),
                ClaimTemplate(.handle, TestParts.otherWrite, by: TestParties.stranger),
                ClaimTemplate(.handle, TestParts.write, by: TestParties.stranger),
            ], depth: 6),
        Menu(
            name: "D3, D4: aware accesses within other accesses",
            claims: [
                ClaimTemplate(.aware, TestParts.write, by: TestParties.aware("a")),
                ClaimTemplate(.aware, TestParts.otherWrite, by: TestParties.aware("b", TestParties.other)),
                ClaimTemplate(.aware, TestParts.otherWrite, by: TestParties.aware("a"), isNested: true),
                ClaimTemplate(
                    .aware, TestParts.write, by: TestParties.aware("b", TestParties.other), isNested: true),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.parent),
                ClaimTemplate(.handle, TestParts.otherWrite, by: TestParties.parent),
            ], depth: 5),
        Menu(
            name: "D2, D3: an answering claim waits for another claim, and this for the asking program",
            setup: [.presented(Presenter(PresenterID(1), of: ItemID(1), by: TestParties.editor, .all))],
            claims: [
                ClaimTemplate(.handle, TestParts.read, by: TestParties.stranger),
                ClaimTemplate(
                    .aware, TestParts.write, by: TestParties.aware("e", TestParties.other), isAnswer: true),
                ClaimTemplate(.handleless, TestParts.write, by: TestParties.parent, isAnswer: true),
                ClaimTemplate(.aware, TestParts.write, by: TestParties.aware("a")),
                ClaimTemplate(.handle, TestParts.write, by: TestParties.other),
            ], answers: [.done, .failed], depth: 5),
    ]

    static var failing: Bounds {
        var bounds = shortBounds
        bounds.policy = .fail
        return bounds
    }
}
