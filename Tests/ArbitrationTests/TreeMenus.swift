// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Worlds with a folder (10), a folder in it (11), a package there (12), a package in that (13) and a folder (14).
extension Menu {
    static let tree: [Event] = [
        .placed(ItemID(10), Directory(in: nil)), .placed(ItemID(11), Directory(in: ItemID(10))),
        .placed(ItemID(12), Directory(in: ItemID(11), isPackage: true)),
        .placed(ItemID(13), Directory(in: ItemID(12), isPackage: true)),
        .placed(ItemID(14), Directory(in: ItemID(12))),
    ]

    private static func shown(
        _ number: UInt64, _ item: UInt64, in directory: UInt64?, by party: Party = Cast.editor,
        _ messages: PresenterMessages = .all
    ) -> Event {
        let place = Place(in: directory.map { ItemID($0) })
        return .presented(
            Presenter(PresenterID(number), of: ItemID(item), at: place, by: party, messages))
    }

    private static func link(_ number: UInt64, in directory: UInt64 = 11) -> Place {
        Place(in: ItemID(directory), link: LinkID(number))
    }

    static let trees = [
        Menu(
            name: "S1, S2: packages are one file", setup: tree,
            claims: [
                Form(.handle, Things.reading(3, in: 12)), Form(.handle, Things.writing(4, in: 13)),
                Form(.handle, Things.writing(5, in: 14)), Form(.handle, Things.reading(12, in: 11)),
                Form(.handle, Things.writing(2, in: 11)),
            ], parties: [Cast.stranger, Cast.other, Cast.parent], isIdentifiedAtOnce: true, depth: 5),
        Menu(
            name: "S3, S4: who deletes a folder, and who is at work below it", setup: tree,
            claims: [
                Form(.aware, Things.writing(11, in: 10, .forDeleting), by: Cast.aware("a")),
                Form(.handle, Things.writing(2, in: 11), by: Cast.other),
                Form(.handle, Things.reading(4, in: 13), by: Cast.other),
                Form(.aware, Things.reading(2, in: 11), by: Cast.aware("b")),
                Form(.nameChange, Things.writing(11, in: 10, .forMoving), by: Cast.parent),
                Form(.request, Things.writing(11, in: 10), by: Cast.stranger),
            ], depth: 5),
        Menu(
            name: "S5: directories move, and become packages", setup: tree,
            claims: [
                Form(.handle, Things.writing(2, in: 11)), Form(.handle, Things.reading(6, in: 10)),
                Form(.aware, Things.writing(11, in: 10, .forMoving), by: Cast.aware("a")),
                Form(.handle, Things.writing(3, in: 12)),
            ], parties: [Cast.stranger, Cast.other], isIdentifiedAtOnce: true,
            facts: [
                .placed(ItemID(10), Directory(in: nil, isPackage: true)),
                .placed(ItemID(12), Directory(in: ItemID(11))),
                .moved(
                    ItemID(12), Move(from: Place(in: ItemID(11)), to: Place(in: ItemID(10))), by: Cast.parent,
                    under: nil),
            ], depth: 5),
        Menu(
            name: "S6, S7: claims follow items, and replacements names", setup: tree,
            claims: [
                Form(.aware, Things.writing(1, in: 10, .forReplacing), by: Cast.aware("a")),
                Form(.aware, Things.writing(1, in: 10, .forDeleting), by: Cast.aware("b")),
                Form(.handle, Things.writing(1, in: 10), by: Cast.stranger),
                Form(
                    .aware,
                    Request.Part(
                        ItemID(1), .read(.resolvesSymbolicLink), at: Place(in: ItemID(10)), via: ItemID(7)),
                    by: Cast.aware("c")),
                Form(.handle, Things.writing(2, in: 11), by: Cast.other),
            ],
            facts: [
                .moved(
                    ItemID(1),
                    Move(from: Place(in: ItemID(10)), to: Place(in: ItemID(11)), leaving: ItemID(8)),
                    by: Cast.parent, under: nil),
                .relinked(ItemID(7), to: ItemID(2), at: Place(in: ItemID(11))),
            ], depth: 5),
        Menu(
            name: "P16, P17, P18: presenters of and in packages and folders",
            setup: tree + [
                shown(1, 12, in: 11), shown(2, 4, in: 13, by: Cast.viewer),
                shown(3, 11, in: 10, by: Cast.viewer, [.accommodateSubitemDeletion, .subitemDidChange]),
            ],
            claims: [
                Form(.handle, Things.reading(3, in: 12), by: Cast.stranger),
                Form(.nameChange, Things.writing(4, in: 13, .forDeleting), by: Cast.other),
                Form(.nameChange, Things.writing(12, in: 11, .forMoving), by: Cast.parent),
                Form(.handle, Things.writing(9, in: 13, .forReplacing), by: Cast.parent),
                Form(.aware, Things.writing(14, in: 12), by: Cast.aware("a")),
            ], answers: [.done], depth: 4),
        Menu(
            name: "P19: one item with two names",
            setup: tree + [
                .presented(Presenter(PresenterID(1), of: ItemID(1), at: link(1), by: Cast.editor, .all)),
                .presented(Presenter(PresenterID(2), of: ItemID(1), at: link(2), by: Cast.viewer, .all)),
            ],
            claims: [
                Form(
                    .nameChange, Request.Part(ItemID(1), .write(.forDeleting), at: link(1)), by: Cast.stranger
                ),
                Form(.handle, Request.Part(ItemID(1), .read(.withoutChanges), at: link(2)), by: Cast.other),
            ], answers: [.done], spans: [.milliseconds(20)],
            facts: [
                .deleted(ItemID(1), at: link(1), by: Cast.parent, under: nil),
                .moved(ItemID(1), Move(from: link(2), to: link(3, in: 10)), by: Cast.parent, under: nil),
                .changed(
                    ItemID(1), at: link(1), Cause(Cast.parent, .write(.updating)), under: nil, stamp: 1),
            ], depth: 5),
        Menu(
            name: "N6, N7, N8: what is told of things in folders and packages",
            setup: tree + [
                shown(1, 10, in: nil), shown(2, 12, in: 11, by: Cast.viewer, [.didChange, .subitemDidMove]),
                shown(3, 11, in: 10, by: Cast.viewer),
            ], spans: [.milliseconds(20)],
            facts: happenings, depth: 5),
        Menu(
            name: "N8, N9: what is deleted and was moved after all",
            setup: tree + [
                shown(1, 12, in: 11), shown(2, 14, in: 12, by: Cast.viewer),
                shown(3, 3, in: 12, [.didMove, .didChange]),
            ], spans: [.milliseconds(20)],
            facts: [
                .created(ItemID(3), at: Place(in: ItemID(12)), by: Cast.stranger, under: nil),
                .changed(
                    ItemID(3), at: Place(in: ItemID(12)), Cause(Cast.stranger, .write(.updating)), under: nil,
                    stamp: 1),
                .deleted(ItemID(3), at: Place(in: ItemID(12)), by: Cast.stranger, under: nil),
                .moved(
                    ItemID(3), Move(from: Place(in: ItemID(12)), to: Place(in: ItemID(14))),
                    by: Cast.stranger,
                    under: nil),
                .moved(
                    ItemID(3), Move(from: Place(in: ItemID(12)), to: Place(in: ItemID(10))), by: Cast.other,
                    under: nil),
            ], followsMoves: true, depth: 6),
        Menu(
            name: "P21: what is shown does not exist yet",
            setup: tree + [
                .presented(Presenter(PresenterID(1), of: nil, by: Cast.editor, .all)), shown(2, 11, in: 10),
            ],
            claims: [
                Form(.handle, Things.reading(2, in: 11), by: Cast.stranger),
                Form(.handle, Things.writing(2, in: 11, .forReplacing), by: Cast.other),
            ], answers: [.done], stamps: [1], spans: [.milliseconds(20)],
            facts: [
                .created(ItemID(2), at: Place(in: ItemID(11)), by: Cast.other, under: nil),
                .shown(PresenterID(1), ItemID(2), at: Place(in: ItemID(11))),
            ], depth: 5),
        Menu(
            name: "B2: a batch of folders and packages",
            setup: tree + [shown(1, 2, in: 11), shown(2, 3, in: 12, by: Cast.viewer)],
            claims: [
                Form(.batch, Things.reading(11, in: 10), Things.writing(14, in: 12), by: Cast.aware("a")),
                Form(.batch, Things.writing(12, in: 11, .forDeleting), by: Cast.aware("a")),
                Form(.aware, Things.writing(3, in: 12, .forDeleting), by: Cast.aware("a")),
            ], answers: [.done, .failed], depth: 5),
    ]

    private static let happenings: [Event] = [
        .created(ItemID(2), at: Place(in: ItemID(11)), by: Cast.stranger, under: nil),
        .changed(
            ItemID(2), at: Place(in: ItemID(11)), Cause(Cast.stranger, .write(.updating)), under: nil,
            stamp: 1),
        .deleted(ItemID(2), at: Place(in: ItemID(11)), by: Cast.stranger, under: nil),
        .moved(
            ItemID(3), Move(from: Place(in: ItemID(12)), to: Place(in: ItemID(10))), by: Cast.stranger,
            under: nil),
        .moved(
            ItemID(12), Move(from: Place(in: ItemID(11)), to: Place(in: ItemID(10))), by: Cast.stranger,
            under: nil),
        .changed(
            ItemID(11), at: Place(in: ItemID(10)), Cause(Cast.other, .write(.contentIndependentMetadataOnly)),
            under: nil, stamp: 2),
    ]

    static let all = locks + deadlocks + presenters + trees
}
