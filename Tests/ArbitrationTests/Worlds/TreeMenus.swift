// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Menus, the possible events of simulations, with folders and packages: folder 10 contains folders 11 and 14, folder 11
/// contains package 12, and package 12 contains package 13.
extension Menu {
    static let tree: [ArbiterEvent] = [
        .placed(ItemID(10), DirectoryInfo(in: nil)), .placed(ItemID(11), DirectoryInfo(in: ItemID(10))),
        .placed(ItemID(12), DirectoryInfo(in: ItemID(11), isPackage: true)),
        .placed(ItemID(13), DirectoryInfo(in: ItemID(12), isPackage: true)),
        .placed(ItemID(14), DirectoryInfo(in: ItemID(12))),
    ]

    private static func shown(
        _ number: UInt64, _ item: UInt64, in directory: UInt64?, by party: Party = TestParties.editor,
        _ messages: PresenterMessages = .all
    ) -> ArbiterEvent {
        let place = Place(in: directory.map { ItemID($0) })
        return .presented(
            Presenter(PresenterID(number), of: ItemID(item), at: place, by: party, messages))
    }

    private static func link(_ number: UInt64, in directory: UInt64 = 11) -> Place {
        Place(in: ItemID(directory), link: LinkID(number))
    }

    static let trees = [
        Menu(
            name: "S1, S2: a package is locked as one file", setup: tree,
            claims: [
                ClaimTemplate(.handle, TestParts.reading(3, in: 12)),
                ClaimTemplate(.handle, TestParts.writing(4, in: 13)),
                ClaimTemplate(.handle, TestParts.writing(5, in: 14)),
                ClaimTemplate(.handle, TestParts.reading(12, in: 11)),
                ClaimTemplate(.handle, TestParts.writing(2, in: 11)),
            ], parties: [TestParties.stranger, TestParties.other, TestParties.parent],
            isIdentifiedAtOnce: true, depth: 5),
        Menu(
            name: "S3, S4: the deletion of a folder, and programs that work below it", setup: tree,
            claims: [
                ClaimTemplate(
                    .aware, TestParts.writing(11, in: 10, .forDeleting), by: TestParties.aware("a")),
                ClaimTemplate(.handle, TestParts.writing(2, in: 11), by: TestParties.other),
                ClaimTemplate(.handle, TestParts.reading(4, in: 13), by: TestParties.other),
                ClaimTemplate(.aware, TestParts.reading(2, in: 11), by: TestParties.aware("b")),
                ClaimTemplate(.nameChange, TestParts.writing(11, in: 10, .forMoving), by: TestParties.parent),
                ClaimTemplate(.handleless, TestParts.writing(11, in: 10), by: TestParties.stranger),
            ], depth: 5),
        Menu(
            name: "S5: directories are moved, and become packages", setup: tree,
            claims: [
                ClaimTemplate(.handle, TestParts.writing(2, in: 11)),
                ClaimTemplate(.handle, TestParts.reading(6, in: 10)),
                ClaimTemplate(.aware, TestParts.writing(11, in: 10, .forMoving), by: TestParties.aware("a")),
                ClaimTemplate(.handle, TestParts.writing(3, in: 12)),
            ], parties: [TestParties.stranger, TestParties.other], isIdentifiedAtOnce: true,
            facts: [
                .placed(ItemID(10), DirectoryInfo(in: nil, isPackage: true)),
                .placed(ItemID(12), DirectoryInfo(in: ItemID(11))),
                .moved(
                    ItemID(12), Move(from: Place(in: ItemID(11)), to: Place(in: ItemID(10))),
                    by: TestParties.parent,
                    under: nil),
            ], depth: 5),
        Menu(
            name: "S6, S7: claims follow items, and claims to replace follow names", setup: tree,
            claims: [
                ClaimTemplate(
                    .aware, TestParts.writing(1, in: 10, .forReplacing), by: TestParties.aware("a")),
                ClaimTemplate(.aware, TestParts.writing(1, in: 10, .forDeleting), by: TestParties.aware("b")),
                ClaimTemplate(.handle, TestParts.writing(1, in: 10), by: TestParties.stranger),
                ClaimTemplate(
                    .aware,
                    ClaimRequest.Part(
                        ItemID(1), .read(.resolvesSymbolicLink), at: Place(in: ItemID(10)), via: ItemID(7)),
                    by: TestParties.aware("c")),
                ClaimTemplate(.handle, TestParts.writing(2, in: 11), by: TestParties.other),
            ],
            facts: [
                .moved(
                    ItemID(1),
                    Move(from: Place(in: ItemID(10)), to: Place(in: ItemID(11)), placeholder: ItemID(8)),
                    by: TestParties.parent, under: nil),
                .relinked(ItemID(7), to: ItemID(2), at: Place(in: ItemID(11))),
            ], depth: 5),
        Menu(
            name: "P16, P17, P18: presenters of and in packages and folders",
            setup: tree + [
                shown(1, 12, in: 11), shown(2, 4, in: 13, by: TestParties.viewer),
                shown(
                    3, 11, in: 10, by: TestParties.viewer, [.accommodateSubitemDeletion, .subitemDidChange]),
            ],
            claims: [
                ClaimTemplate(.handle, TestParts.reading(3, in: 12), by: TestParties.stranger),
                ClaimTemplate(.nameChange, TestParts.writing(4, in: 13, .forDeleting), by: TestParties.other),
                ClaimTemplate(.nameChange, TestParts.writing(12, in: 11, .forMoving), by: TestParties.parent),
                ClaimTemplate(.handle, TestParts.writing(9, in: 13, .forReplacing), by: TestParties.parent),
                ClaimTemplate(.aware, TestParts.writing(14, in: 12), by: TestParties.aware("a")),
            ], answers: [.done], depth: 4),
        Menu(
            name: "P19: one item with two names",
            setup: tree + [
                .presented(
                    Presenter(PresenterID(1), of: ItemID(1), at: link(1), by: TestParties.editor, .all)),
                .presented(
                    Presenter(PresenterID(2), of: ItemID(1), at: link(2), by: TestParties.viewer, .all)),
            ],
            claims: [
                ClaimTemplate(
                    .nameChange, ClaimRequest.Part(ItemID(1), .write(.forDeleting), at: link(1)),
                    by: TestParties.stranger
                ),
                ClaimTemplate(
                    .handle, ClaimRequest.Part(ItemID(1), .read(.withoutChanges), at: link(2)),
                    by: TestParties.other),
            ], answers: [.done], spans: [.milliseconds(20)],
            facts: [
                .deleted(ItemID(1), at: link(1), by: TestParties.parent, under: nil),
                .moved(
                    ItemID(1), Move(from: link(2), to: link(3, in: 10)), by: TestParties.parent, under: nil),
                .changed(
                    ItemID(1), at: link(1), Cause(TestParties.parent, .write(.updating)), under: nil, stamp: 1
                ),
            ], depth: 5),
        Menu(
            name: "N6, N7, N8: notices of items in folders and packages",
            setup: tree + [
                shown(1, 10, in: nil),
                shown(2, 12, in: 11, by: TestParties.viewer, [.didChange, .subitemDidMove]),
                shown(3, 11, in: 10, by: TestParties.viewer),
            ], spans: [.milliseconds(20)],
            facts: happenings, depth: 5),
        Menu(
            name: "N8, N9: an item is deleted and found again elsewhere",
            setup: tree + [
                shown(1, 12, in: 11), shown(2, 14, in: 12, by: TestParties.viewer),
                shown(3, 3, in: 12, [.didMove, .didChange]),
            ], spans: [.milliseconds(20)],
            facts: [
                .created(ItemID(3), at: Place(in: ItemID(12)), by: TestParties.stranger, under: nil),
                .changed(
                    ItemID(3), at: Place(in: ItemID(12)), Cause(TestParties.stranger, .write(.updating)),
                    under: nil,
                    stamp: 1),
                .deleted(ItemID(3), at: Place(in: ItemID(12)), by: TestParties.stranger, under: nil),
                .moved(
                    ItemID(3), Move(from: Place(in: ItemID(12)), to: Place(in: ItemID(14))),
                    by: TestParties.stranger,
                    under: nil),
                .moved(
                    ItemID(3), Move(from: Place(in: ItemID(12)), to: Place(in: ItemID(10))),
                    by: TestParties.other,
                    under: nil),
            ], followsMoves: true, depth: 6),
        Menu(
            name: "P21: a presenter of an item that does not exist yet",
            setup: tree + [
                .presented(Presenter(PresenterID(1), of: nil, by: TestParties.editor, .all)),
                shown(2, 11, in: 10),
            ],
            claims: [
                ClaimTemplate(.handle, TestParts.reading(2, in: 11), by: TestParties.stranger),
                ClaimTemplate(.handle, TestParts.writing(2, in: 11, .forReplacing), by: TestParties.other),
            ], answers: [.done], stamps: [1], spans: [.milliseconds(20)],
            facts: [
                .created(ItemID(2), at: Place(in: ItemID(11)), by: TestParties.other, under: nil),
                .shown(PresenterID(1), ItemID(2), at: Place(in: ItemID(11))),
            ], depth: 5),
        Menu(
            name: "B2: a batch of folders and packages",
            setup: tree + [shown(1, 2, in: 11), shown(2, 3, in: 12, by: TestParties.viewer)],
            claims: [
                ClaimTemplate(
                    .batch, TestParts.reading(11, in: 10), TestParts.writing(14, in: 12),
                    by: TestParties.aware("a")),
                ClaimTemplate(
                    .batch, TestParts.writing(12, in: 11, .forDeleting), by: TestParties.aware("a")),
                ClaimTemplate(.aware, TestParts.writing(3, in: 12, .forDeleting), by: TestParties.aware("a")),
            ], answers: [.done, .failed], depth: 5),
    ]

    private static let happenings: [ArbiterEvent] = [
        .created(ItemID(2), at: Place(in: ItemID(11)), by: TestParties.stranger, under: nil),
        .changed(
            ItemID(2), at: Place(in: ItemID(11)), Cause(TestParties.stranger, .write(.updating)), under: nil,
            stamp: 1),
        .deleted(ItemID(2), at: Place(in: ItemID(11)), by: TestParties.stranger, under: nil),
        .moved(
            ItemID(3), Move(from: Place(in: ItemID(12)), to: Place(in: ItemID(10))), by: TestParties.stranger,
            under: nil),
        .moved(
            ItemID(12), Move(from: Place(in: ItemID(11)), to: Place(in: ItemID(10))),
            by: TestParties.stranger,
            under: nil),
        .changed(
            ItemID(11), at: Place(in: ItemID(10)),
            Cause(TestParties.other, .write(.contentIndependentMetadataOnly)),
            under: nil, stamp: 2),
    ]

    static let all = locks + deadlocks + presenters + trees
}
