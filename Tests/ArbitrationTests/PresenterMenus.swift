// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Worlds of one item that is shown.
extension Menu {
    private static let editor = Event.presented(
        Presenter(PresenterID(1), of: ItemID(1), by: Cast.editor, .all))
    private static let viewer = Event.presented(
        Presenter(PresenterID(2), of: ItemID(1), by: Cast.viewer, [.save, .didChange, .accommodateDeletion]))

    private static func changed(_ item: UInt64, by party: Party, stamp: UInt64 = 9) -> Event {
        .changed(ItemID(item), at: Place(), Cause(party, .write(.updating)), under: nil, stamp: stamp)
    }

    static let presenters = [
        Menu(
            name: "P1, P2, P3, N1, N3: readers, writers and one who is asked", setup: [editor],
            claims: [
                Form(.handle, Things.read, by: Cast.stranger), Form(.handle, Things.write, by: Cast.other),
                Form(.nameChange, Things.delete, by: Cast.parent),
            ], answers: [.done], stamps: [1], spans: [.milliseconds(20)], depth: 6),
        Menu(
            name: "N12, N4: a writer that goes on", setup: [editor, viewer],
            claims: [
                Form(.handle, Things.write, by: Cast.other), Form(.handle, Things.read, by: Cast.stranger),
                Form(.nameChange, Things.delete, by: Cast.other),
            ], observations: [.dirty(stamp: 1)], answers: [.done], stamps: [1], goingOn: [1, 2],
            spans: [.milliseconds(20)], depth: 5),
        Menu(
            name: "P4, P7, P8, T1: silence, lateness and progress", setup: [editor],
            claims: [
                Form(.handle, Things.read, by: Cast.stranger), Form(.request, Things.write, by: Cast.other),
            ],
            answers: [.done], hasLateAnswers: true, hasProgress: true, hasHurry: true,
            spans: [.milliseconds(31), .milliseconds(70)], depth: 6),
        Menu(
            name: "P12, P13, P14, T2: refusals, policy fail, and death", setup: [editor, viewer],
            claims: [
                Form(.nameChange, Things.delete, by: Cast.parent),
                Form(.handle, Things.read, by: Cast.stranger),
                Form(.aware, Things.writing(1, .forMerging), by: Cast.aware("a")),
            ], answers: [.done, .failed], canForce: true, removals: [PresenterID(1), PresenterID(2)],
            spans: [.milliseconds(40)], bounds: failing, depth: 5),
        Menu(
            name: "P5, P6, Q3: the presenter and those who work for it", setup: [editor],
            claims: [
                Form(.handle, Things.read, by: Cast.stranger), Form(.handle, Things.write, by: Cast.editor),
                Form(.handle, Things.write, by: Cast.worker), Form(.handle, Things.write, by: Cast.other),
                Form(.aware, Things.write, by: Cast.aware("a", Cast.editor)),
            ], answers: [.done], stamps: [1], depth: 5),
        Menu(
            name: "P9, P10: who may ask to save", setup: [viewer],
            claims: [
                Form(.handle, Things.read, by: Cast.stranger), Form(.handle, Things.read, by: Cast.other),
                Form(.handle, Things.read, by: Cast.child), Form(.aware, Things.read, by: Cast.aware("a")),
            ], answers: [.done, .failed], spans: [.milliseconds(30)], depth: 6),
        Menu(
            name: "P25, P6: presenters that read", setup: [editor, viewer],
            claims: [
                Form(.aware, Things.read, by: Cast.aware("a", Cast.editor)),
                Form(.aware, Things.read, by: Cast.aware("b", Cast.viewer)),
                Form(.handle, Things.read, by: Cast.stranger), Form(.handle, Things.read, by: Cast.editor),
                Form(.handle, Things.write, by: Cast.other),
            ], answers: [.done], spans: [.milliseconds(20)], depth: 5),
        Menu(
            name: "P15, P22, P20: accesses within accesses", setup: [editor],
            claims: [
                Form(.aware, Things.write, by: Cast.aware("a", Cast.parent)),
                Form(.aware, Things.read, by: Cast.aware("a", Cast.parent), isNested: true),
                Form(.handle, Things.read, by: Cast.sibling),
                Form(.aware, Things.read, Things.write, by: Cast.aware("b")),
            ], answers: [.done], stamps: [1], spans: [.milliseconds(20)], depth: 6),
        Menu(
            name: "P15, N8, N9: a move by way of another file", setup: [editor, viewer],
            claims: [
                Form(.aware, Things.writing(1, .forMoving), by: Cast.aware("a", Cast.parent)),
                Form(.nameChange, Things.writing(1, .forDeleting), by: Cast.sibling),
                Form(.nameChange, Things.writing(1, .forReplacing), by: Cast.sibling),
                Form(.handle, Things.read, by: Cast.stranger),
            ], answers: [.done], spans: [.milliseconds(20)],
            facts: [
                .deleted(ItemID(1), at: Place(), by: Cast.sibling, under: nil),
                .moved(ItemID(1), Move(), by: Cast.parent, under: nil), changed(1, by: Cast.parent),
            ], depth: 5),
        Menu(
            name: "P11, R1, R2, N2, N9: a save in several steps", setup: [editor],
            claims: [
                Form(.nameChange, Things.writing(1, .forMoving), by: Cast.stranger),
                Form(.handle, Things.writing(1, .forReplacing), by: Cast.stranger),
                Form(.handle, Things.read, by: Cast.other),
            ], answers: [.done], spans: [.milliseconds(20)],
            facts: [
                .vacated(document: ItemID(1), orphan: ItemID(3)),
                .replaced(document: ItemID(1), incoming: ItemID(2), orphan: ItemID(4)),
                .moved(ItemID(1), Move(), by: Cast.stranger, under: nil), changed(1, by: Cast.stranger),
                .lost(ItemID(1), at: Place(), by: Cast.stranger),
                .deleted(ItemID(1), at: Place(), by: Cast.stranger, under: nil),
            ], depth: 5),
        Menu(
            name: "N4, Y1: what suspended holders have changed", setup: [editor],
            claims: [
                Form(.handle, Things.write, by: Cast.stranger), Form(.handle, Things.read, by: Cast.other),
            ],
            observations: [.dirty(stamp: 1), .untouched, .clean], answers: [.done], stamps: [1, 2],
            spans: [.milliseconds(40)], depth: 6),
        Menu(
            name: "N5, N3: changes by several programs", setup: [editor, viewer],
            claims: [Form(.handle, Things.write, by: Cast.other)], answers: [.done], stamps: [1],
            spans: [.milliseconds(10), .milliseconds(20)],
            facts: [
                changed(1, by: Cast.stranger, stamp: 7), changed(1, by: Cast.editor, stamp: 8),
                changed(1, by: Cast.worker, stamp: 9), changed(1, by: Cast.stranger, stamp: 10),
            ], depth: 5),
        Menu(
            name: "B1, B2, B3: batches", setup: [editor],
            claims: [
                Form(.batch, Things.write, by: Cast.aware("a")),
                Form(.aware, Things.write, by: Cast.aware("a")),
                Form(.aware, Things.read, by: Cast.aware("a")), Form(.handle, Things.read, by: Cast.other),
            ], answers: [.done, .failed], stamps: [1], spans: [.milliseconds(20)], depth: 5),
    ]
}
