// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

extension MountTests {
    /// Checks that the conflict copies of tools that synchronise files are offered as conflicts of their documents.
    @Suite struct ConflictCopyTests {
        private static let copy = "note.sync-conflict-20261128-101530-ABCDEF7.md"

        @Test(
            "A new conflict copy is offered as a conflict of its document, and stays where it is",
            arguments: [
                ConflictCopyTests.copy, "note (Anna's conflicted copy 2026-11-28).md",
                "note (conflicted copy 2026-11-28 101530).md", "note_conflict-20261128-101530.md",
                "note (conflict_on_2026-11-28).md", "note (conflict #1_on_2026-11-28).md",
                "note.md.conflict1",
                "note.md..path2",
            ])
        func aNewCopyIsOffered(name: String) throws {
            try MountedDirectory.with { mount in
                let actor = try ScriptedProcess()
                try actor.must("put", mount.path + "/note.md", "ours")
                try actor.must("put", "\(mount.path)/\(name)", "theirs")
                let offer = try Self.awaitOffer(mount)
                #expect(offer.copy == name)
                #expect(try mount.text(ofKept: offer.id) == "theirs")
                #expect(try FileContents.text(of: "\(mount.below)/\(name)") == "theirs")
                #expect(try FileContents.text(of: mount.below + "/note.md") == "ours")
            }
        }

        @Test(
            "A document that is renamed to a conflict copy is offered when the other contents have its name")
        func aRenamedDocumentIsOffered() throws {
            let prepare = { (source: String) in try FileContents.write("ours", to: source + "/note.md") }
            try MountedDirectory.with(prepare: prepare) { mount in
                let actor = try ScriptedProcess()
                try actor.must("put", mount.path + "/.syncthing.note.md.tmp", "theirs")
                try actor.must("rename", mount.path + "/note.md", "\(mount.path)/\(Self.copy)")
                try actor.must("rename", mount.path + "/.syncthing.note.md.tmp", mount.path + "/note.md")
                let offer = try Self.awaitOffer(mount)
                #expect(try mount.text(ofKept: offer.id) == "ours")
                #expect(try FileContents.text(of: mount.below + "/note.md") == "theirs")
            }
        }

        @Test("The removal of a conflict copy ends the offer, even after another mount; the version stays")
        func theRemovalOfACopyEndsTheOffer() throws {
            try MountedDirectory.with { mount in
                let actor = try ScriptedProcess()
                try actor.must("put", mount.path + "/note.md", "ours")
                try actor.must("put", "\(mount.path)/\(Self.copy)", "theirs")
                let offer = try Self.awaitOffer(mount)
                try mount.kill()
                try mount.mount()
                #expect(try Self.offers(of: mount).map(\.id) == [offer.id])
                try actor.must("unlink", "\(mount.path)/\(Self.copy)")
                try eventually(within: .seconds(10), "the end of the offer") {
                    try Self.offers(of: mount).isEmpty
                }
                #expect(try mount.text(ofKept: offer.id) == "theirs")
            }
        }

        @Test("New contents of a conflict copy, even former ones, replace the offer, and equal ones do not")
        func newContentsReplaceTheOffer() throws {
            try MountedDirectory.with { mount in
                let actor = try ScriptedProcess()
                try actor.must("put", mount.path + "/note.md", "ours")
                try actor.must("put", "\(mount.path)/\(Self.copy)", "theirs")
                let first = try Self.awaitOffer(mount)
                try actor.must("put", "\(mount.path)/\(Self.copy)", "theirs")
                try actor.must("put", "\(mount.path)/\(Self.copy)", "theirs, edited")
                try eventually(within: .seconds(10), "another offer") {
                    let offers = try Self.offers(of: mount)
                    return offers.count == 1 && offers[0].id != first.id
                }
                let second = try #require(try Self.offers(of: mount).first)
                #expect(try mount.text(ofKept: second.id) == "theirs, edited")
                #expect(try mount.kept("note.md").count == 2)
                try actor.must("put", "\(mount.path)/\(Self.copy)", "theirs")
                try eventually(within: .seconds(10), "an offer of the former contents") {
                    let offers = try Self.offers(of: mount)
                    return offers.count == 1 && ![first.id, second.id].contains(offers[0].id)
                }
                #expect(try mount.kept("note.md").count == 3)
            }
        }

        @Test("`truce versions resolve` ends an offer, and removes the conflict copy only with --remove-copy")
        func resolvingEndsAnOffer() throws {
            try MountedDirectory.with { mount in
                let actor = try ScriptedProcess()
                for (number, option) in [[], ["--remove-copy"]].enumerated() {
                    let name = "note.sync-conflict-20261128-10153\(number)-ABCDEF7.md"
                    try actor.must("put", mount.path + "/note.md", "ours")
                    try actor.must("put", "\(mount.path)/\(name)", "theirs \(number)")
                    let offer = try Self.awaitOffer(mount)
                    let words = ["versions", mount.path + "/note.md", "resolve", offer.id] + option
                    try Script("exec \"$@\"").attempt(arguments: [try Lab.variable("TRUCE_BINARY")] + words)
                        .requireSuccess()
                    #expect(try Self.offers(of: mount).isEmpty)
                    #expect((FileContents.ofFile("\(mount.below)/\(name)") == nil) == !option.isEmpty)
                }
            }
        }

        @Test("A conflict copy that is made around the mount is offered, and its removal ends the offer")
        func aCopyMadeAroundTheMountIsOffered() throws {
            let source = try Lab.freshDirectory("source")
            let place = try Lab.freshDirectory("place")
            try TruceCommand.run("mount", source, place)
            do {
                try FileContents.write("ours", to: source + "/note.md")
                // The kernel knows the directory, so the daemon watches it.
                try Program("ls").run(place)
                try FileContents.write("theirs", to: "\(source)/\(Self.copy)")
                try eventually(within: .seconds(10), "the offer") {
                    try Self.offers(below: source).count == 1
                }
                try Program("rm").run("\(source)/\(Self.copy)")
                try eventually(within: .seconds(10), "the end of the offer") {
                    try Self.offers(below: source).isEmpty
                }
            } catch {
                _ = try TruceCommand.attempt("unmount", "--lazy", place)
                throw error
            }
            try TruceCommand.run("unmount", place)
        }

        @Test("None of 200 conflict copies is missed, and files without a document are no conflicts")
        func noneOfManyCopiesIsMissed() throws {
            try MountedDirectory.with { mount in
                try Script(
                    """
                    cd "$1"
                    for i in {1..200}; do
                        echo "ours $i" >"note-$i.md"
                        echo "theirs $i" >"note-$i.sync-conflict-20261128-101530-ABCDEF7.md"
                    done
                    echo none >lonely.sync-conflict-20261128-101530-ABCDEF7.md
                    """
                ).run(mount.path)
                try eventually(within: .seconds(30), "200 offers") { try Self.offers(of: mount).count >= 200 }
                let offers = try Self.offers(of: mount)
                #expect(offers.count == 200)
                #expect(Set(offers.map(\.path)).count == 200)
                #expect(!offers.contains { $0.path.contains("lonely") })
            }
        }

        /// A version with the contents of a conflict copy.
        private struct Offer: Decodable {
            let id: String
            let path: String
            private let conflictCopy: Data
            var copy: String { String(decoding: conflictCopy, as: UTF8.self) }
        }

        private static func awaitOffer(_ mount: MountedDirectory) throws -> Offer {
            try eventually(within: .seconds(10), "an offer") { try offers(of: mount).count == 1 }
            return try #require(try offers(of: mount).first)
        }

        private static func offers(of mount: MountedDirectory) throws -> [Offer] {
            try offers(below: mount.below)
        }

        /// The versions of conflict copies that are in conflict, by the log of the store.
        private static func offers(below source: String) throws -> [Offer] {
            struct Line: Decodable {
                let event: String
                let id: String
                let cause: String
                let standing: String?
            }
            var offers: [String: Offer] = [:]
            let log = FileContents.ofFile(source + "/.truce/store/kept.log") ?? []
            for text in log.split(separator: UInt8(ascii: "\n")) {
                let line = try JSONDecoder().decode(Line.self, from: Data(text))
                if line.event == "kept", line.cause == "sync" {
                    offers[line.id] = try JSONDecoder().decode(Offer.self, from: Data(text))
                } else if line.event == "dropped" || line.standing == "resolved" {
                    offers[line.id] = nil
                }
            }
            return offers.values.sorted { $0.id < $1.id }
        }
    }
}
