// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

extension Mounted {
    /// A program saves if it puts the next contents under the name that it has vacated, whatever it calls the former ones.
    @Suite struct AnyNames {
        /// How a new file comes to the name.
        enum Filling: String, CaseIterable, Sendable { case create, rename, link }

        static let names = [
            "notes.md.old", "Backup of notes.md", "notes.bak", "bk/notes.md", "notes.md.save", "notes.md@",
            ".blend1",
            "Xq7_0", "else/where", "notes.md~",
        ]

        private static func prepare(_ directory: String) throws {
            try Presenters.writeNotes(in: directory)
            try Script("mkdir \"$1/bk\" \"$1/else\"").run(directory)
        }

        private static func count(_ message: String, _ presenter: RunningProgram) -> Int {
            presenter.text.components(separatedBy: "presenter/" + message).count - 1
        }

        private static func fill(_ document: String, with text: String, _ filling: Filling, by saver: Actor)
            throws
        {
            guard filling != .create else {
                try saver.must("put", document, text)
                return
            }
            let made = document + "-made"
            try saver.must("put", made, text)
            try saver.must(filling.rawValue, made, document)
            if filling == .link { try saver.must("unlink", made) }
        }

        /// In milliseconds. A name that is missing for longer may be taken to be gone: if the saver was not run, it saves once more.
        private static let longest = 150
        private static let saves = 5

        private static func save(aside name: String, _ filling: Filling) throws -> String {
            for _ in 1...10 {
                if let told = try saveInTime(aside: name, filling) { return told }
            }
            throw Failure("a program that saves was never run in time")
        }

        /// Saves a few times while others look at the document and list its directory, and returns what the presenter was told. Nil
        /// if a save took too long.
        private static func saveInTime(aside name: String, _ filling: Filling) throws -> String? {
            try MountedDirectory.with(prepare: prepare) { mount in
                let (document, board) = (mount.path + "/notes.md", try Board())
                let (saver, presenter) = (try Actor(), try Presenters.present(mount))
                let watchers = [
                    try Worker(board, row: 1, "look", document),
                    try Worker(board, row: 2, "list", mount.path, "notes.md"),
                ]
                for watcher in watchers { try watcher.waitUntilReady() }
                let aside = name.isEmpty ? "" : mount.path + "/" + name
                for round in 1...saves {
                    let answer = try saver.ask("save", document, aside, filling.rawValue, "new \(round)")
                    guard let took = Int(answer.dropFirst("ok ".count)) else { throw Failure(answer) }
                    guard took < longest else { return nil }
                    try eventually(within: .seconds(10), "change \(round) to be told") {
                        count("didChange", presenter) == round
                    }
                    #expect(try Program("cat").run(document).text == "new \(round)")
                }
                board.stop()
                for watcher in watchers {
                    try watcher.finish()
                    #expect(watcher[.missing] + watcher[.stale] == 0, "\(watcher.numbers)")
                }
                try presenter.end()
                checkForced(try mount.status())
                return presenter.text
            }
        }

        @Test(
            "A save that puts the document aside under any name is one change, and the name is never missing",
            arguments: names, Filling.allCases)
        func aside(name: String, filling: Filling) throws {
            let told = try Self.save(aside: name, filling)
            for other in ["didMove", "Deletion", "didAppear"] { #expect(!told.contains(other), "\(told)") }
        }

        @Test(
            "The name of a document that is removed first is never missing, however the new file comes",
            arguments: Filling.allCases)
        func removed(filling: Filling) throws {
            let told = try Self.save(aside: "", filling)
            #expect(!told.contains("didMove"), "\(told)")
        }

        @Test(
            "A move by a living program is told after a moment, and taken back if the program fills the name",
            arguments: Filling.allCases)
        func takenBack(filling: Filling) throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (document, aside) = (mount.path + "/notes.md", mount.path + "/notes.md.old")
                let saver = try Actor()
                let presenter = try Presenters.present(mount)
                try saver.must("rename", document, aside)
                try eventually(within: .seconds(10), "the move to be told") {
                    Self.count("didMove", presenter) == 1
                }
                // A program that is not done works on. So the time does not run out here, however slow the machine is.
                try saver.must("read", aside)
                try Self.fill(document, with: "new", filling, by: saver)
                try eventually(within: .seconds(10), "the move back and the change to be told") {
                    Self.count("didMove", presenter) == 2 && Self.count("didChange", presenter) == 1
                }
                try Script("echo more >>\"$1\"").run(document)
                try eventually(within: .seconds(10), "the next change to be told") {
                    Self.count("didChange", presenter) == 2
                }
                #expect(try Contents.text(of: aside) == "saved\n")
                try presenter.end()
                checkForced(try mount.status())
            }
        }

        @Test(
            "What a presenter saves to a document that is taken to have moved is kept when it turns out to be a backup"
        )
        func typed() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (document, aside) = (mount.path + "/notes.md", mount.path + "/notes.md.old")
                let saver = try Actor()
                let presenter = try TruceCommand.start(
                    "present", document, "--on-move",
                    "case $TRUCE_NEW_PATH in *.old) echo typed >>\"$TRUCE_NEW_PATH\";; esac")
                try eventually(within: .seconds(10), "a presenter: \(presenter.errorText)") {
                    presenter.text.contains("presenting")
                }
                try saver.must("rename", document, aside)
                // Each look of the saver's says that it is not done.
                try eventually(within: .seconds(10), "the presenter to save") {
                    try saver.ask("read", aside) == "ok saved\\ntyped"
                }
                try saver.must("put", document, "new")
                try saver.must("unlink", aside)
                try eventually(within: .seconds(10), "what was typed to be kept") {
                    try TruceCommand.run("kept", mount.path).text.contains("notes.md")
                }
                #expect(try Contents.text(of: document) == "new")
                try presenter.end()
                checkForced(try mount.status())
            }
        }

        @Test(
            "Another program that fills the name makes a new file, and the presenter stays with what was moved"
        )
        func filledByAnother() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (document, aside) = (mount.path + "/notes.md", mount.path + "/elsewhere.md")
                let (mover, other) = (try Actor(), try Actor())
                let presenter = try Presenters.present(mount)
                try mover.must("rename", document, aside)
                try eventually(within: .seconds(10), "the move to be told") {
                    Self.count("didMove", presenter) == 1
                }
                try other.must("put", document, "new")
                try Script("echo more >>\"$1\"").run(aside)
                try eventually(within: .seconds(10), "the change of the moved document to be told") {
                    Self.count("didChange", presenter) == 1
                }
                #expect(Self.count("didMove", presenter) == 1)
                try presenter.end()
                checkForced(try mount.status())
            }
        }

        @Test("`mv` is told as a move as soon as it has ended, and `rm` as a deletion")
        func commands() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let presenter = try Presenters.present(mount)
                try Program("mv").run(mount.path + "/notes.md", mount.path + "/letter.md")
                try eventually(within: .seconds(10), "the move to be told") {
                    Self.count("didMove", presenter) == 1
                }
                try Program("rm").run(mount.path + "/letter.md")
                #expect(Self.count("accommodateDeletion", presenter) == 1)
                try Script("! ls \"$1\" | grep -q letter").run(mount.path)
                try presenter.end()
                checkForced(try mount.status())
            }
        }

        @Test(
            "Log rotation stays a move",
            arguments: [("app.log", "app.log.1"), ("notes", "notes-20260101.gz")])
        func rotation(name: String, rotated: String) throws {
            let prepare = { (source: String) in try Contents.write("old\n", to: source + "/" + name) }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (log, former) = (mount.path + "/" + name, mount.path + "/" + rotated)
                let (presenter, rotator) = (try Presenters.present(mount, name), try Actor())
                try rotator.must("rename", log, former)
                try rotator.must("put", log, "new\n")
                try Script("echo more >>\"$1\"").run(former)
                try eventually(within: .seconds(10), "the change of what was rotated to be told") {
                    Self.count("didChange", presenter) == 1
                }
                #expect(Self.count("didMove", presenter) == 1)
                try presenter.end()
                checkForced(try mount.status())
            }
        }
    }
}
