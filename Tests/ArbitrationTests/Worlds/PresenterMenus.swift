// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Menus, the possible events of simulations, with one item and its presenters.
extension Menu {
    private static let editor = ArbiterEvent.presented(
        Presenter(PresenterID(1), of: ItemID(1), by: TestParties.editor, .all))
    private static let viewer = ArbiterEvent.presented(
        Presenter(
            PresenterID(2), of: ItemID(1), by: TestParties.viewer, [.save, .didChange, .accommodateDeletion]))

    private static func changed(_ item: UInt64, by party: Party, stamp: UInt64 = 9) -> ArbiterEvent {
        .changed(ItemID(item), at: Place(), Cause(party, .write(.updating)), under: nil, stamp: stamp)
    }

    static let presenters = [
        Menu(
            name: "P1, P2, P3, N1, N3: readers, writers and an asked presenter", setup: [editor],
            claims: [
                ClaimTemplate(.handle, TestParts.read, by: TestParties.stranger),
                ClaimTemplate(.handle, TestParts.write, by: TestParties.other),
                ClaimTemplate(.nameChange, TestParts.delete, by: TestParties.parent),
            ], answers: [.done], stamps: [1], spans: [.milliseconds(20)], depth: 6),
        Menu(
            name: "N12, N4: a writer that continues to write", setup: [editor, viewer],
            claims: [
                ClaimTemplate(.handle, TestParts.write, by: TestParties.other),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.stranger),
                ClaimTemplate(.nameChange, TestParts.delete, by: TestParties.other),
            ], observations: [.dirty(stamp: 1)], answers: [.done], stamps: [1], goingOn: [1, 2],
            spans: [.milliseconds(20)], depth: 5),
        Menu(
            name: "P4, P7, P8, T1: a presenter answers late or never, or reports progress", setup: [editor],
            claims: [
                ClaimTemplate(.handle, TestParts.read, by: TestParties.stranger),
                ClaimTemplate(.handleless, TestParts.write, by: TestParties.other),
            ],
            answers: [.done], hasLateAnswers: true, hasProgress: true, hasHurry: true,
            spans: [.milliseconds(31), .milliseconds(70)], depth: 6),
        Menu(
            name: "P12, P13, P14, T2: a presenter refuses, or is removed, under policy fail",
            setup: [editor, viewer],
            claims: [
                ClaimTemplate(.nameChange, TestParts.delete, by: TestParties.parent),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.stranger),
                ClaimTemplate(.aware, TestParts.writing(1, .forMerging), by: TestParties.aware("a")),
            ], answers: [.done, .failed], canForce: true, removals: [PresenterID(1), PresenterID(2)],
            spans: [.milliseconds(40)], bounds: failing, depth: 5),
        Menu(
            name: "P5, P6, Q3: the presenter and the programs that work for it", setup: [editor],
            claims: [
                ClaimTemplate(.handle, TestParts.read, by: TestParties.stranger),
                ClaimTemplate(.handle, TestParts.write, by: TestParties.editor),
                ClaimTemplate(.handle, TestParts.write, by: TestParties.worker),
                ClaimTemplate(.handle, TestParts.write, by: TestParties.other),
                ClaimTemplate(.aware, TestParts.write, by: TestParties.aware("a", TestParties.editor)),
            ], answers: [.done], stamps: [1], depth: 5),
        Menu(
            name: "P9, P10: readers that may ask to save", setup: [viewer],
            claims: [
                ClaimTemplate(.handle, TestParts.read, by: TestParties.stranger),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.other),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.child),
                ClaimTemplate(.aware, TestParts.read, by: TestParties.aware("a")),
            ], answers: [.done, .failed], spans: [.milliseconds(30)], depth: 6),
        Menu(
            name: "P25, P6: presenters that read before they answer", setup: [editor, viewer],
            claims: [
                ClaimTemplate(.aware, TestParts.read, by: TestParties.aware("a", TestParties.editor)),
                ClaimTemplate(.aware, TestParts.read, by: TestParties.aware("b", TestParties.viewer)),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.stranger),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.editor),
                ClaimTemplate(.handle, TestParts.write, by: TestParties.other),
            ], answers: [.done], spans: [.milliseconds(20)], depth: 5),
        Menu(
            name: "P15, P22, P20: accesses within other accesses", setup: [editor],
            claims: [
                ClaimTemplate(.aware, TestParts.write, by: TestParties.aware("a", TestParties.parent)),
                ClaimTemplate(
                    .aware, TestParts.read, by: TestParties.aware("a", TestParties.parent), isNested: true),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.sibling),
                ClaimTemplate(.aware, TestParts.read, TestParts.write, by: TestParties.aware("b")),
            ], answers: [.done], stamps: [1], spans: [.milliseconds(20)], depth: 6),
        Menu(
            name: "P15, N8, N9: a move by way of another file", setup: [editor, viewer],
            claims: [
                ClaimTemplate(
                    .aware, TestParts.writing(1, .forMoving), by: TestParties.aware("a", TestParties.parent)),
                ClaimTemplate(.nameChange, TestParts.writing(1, .forDeleting), by: TestParties.sibling),
                ClaimTemplate(.nameChange, TestParts.writing(1, .forReplacing), by: TestParties.sibling),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.stranger),
            ], answers: [.done], spans: [.milliseconds(20)],
            facts: [
                .deleted(ItemID(1), at: Place(), by: TestParties.sibling, under: nil),
                .moved(ItemID(1), Move(), by: TestParties.parent, under: nil),
                changed(1, by: TestParties.parent),
            ], depth: 5),
        Menu(
            name: "P11, R1, R2, N2, N9: a save in several steps", setup: [editor],
            claims: [
                ClaimTemplate(.nameChange, TestParts.writing(1, .forMoving), by: TestParties.stranger),
                ClaimTemplate(.handle, TestParts.writing(1, .forReplacing), by: TestParties.stranger),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.other),
            ], answers: [.done], spans: [.milliseconds(20)],
            facts: [
                .vacated(document: ItemID(1), orphan: ItemID(3)),
                .replaced(document: ItemID(1), incoming: ItemID(2), orphan: ItemID(4)),
                .moved(ItemID(1), Move(), by: TestParties.stranger, under: nil),
                changed(1, by: TestParties.stranger),
                .lost(ItemID(1), at: Place(), by: TestParties.stranger),
                .deleted(ItemID(1), at: Place(), by: TestParties.stranger, under: nil),
            ], depth: 5),
        Menu(
            name: "N4, Y1: suspended holders that have changed the item", setup: [editor],
            claims: [
                ClaimTemplate(.handle, TestParts.write, by: TestParties.stranger),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.other),
            ],
            observations: [.dirty(stamp: 1), .emptied, .clean], answers: [.done], stamps: [1, 2],
            spans: [.milliseconds(40)], depth: 6),
        Menu(
            name: "N5, N3: changes by several programs", setup: [editor, viewer],
            claims: [ClaimTemplate(.handle, TestParts.write, by: TestParties.other)], answers: [.done],
            stamps: [1],
            spans: [.milliseconds(10), .milliseconds(20)],
            facts: [
                changed(1, by: TestParties.stranger, stamp: 7), changed(1, by: TestParties.editor, stamp: 8),
                changed(1, by: TestParties.worker, stamp: 9), changed(1, by: TestParties.stranger, stamp: 10),
            ], depth: 5),
        Menu(
            name: "B1, B2, B3: batches and a presenter", setup: [editor],
            claims: [
                ClaimTemplate(.batch, TestParts.write, by: TestParties.aware("a")),
                ClaimTemplate(.aware, TestParts.write, by: TestParties.aware("a")),
                ClaimTemplate(.aware, TestParts.read, by: TestParties.aware("a")),
                ClaimTemplate(.handle, TestParts.read, by: TestParties.other),
            ], answers: [.done, .failed], stamps: [1], spans: [.milliseconds(20)], depth: 5),
    ]
}
