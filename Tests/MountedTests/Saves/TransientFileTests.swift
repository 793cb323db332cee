// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

extension MountTests {
    /// If a save makes and removes a helper file, presenters of the folder get no event about this file, whatever its name is.
    @Suite struct TransientFileTests {
        /// How a program saves `notes.md`, as commands for `Tests/Workers/actor`.
        enum SaveMethod: String, CaseIterable, Sendable {
            case helper = "a helper is made first and removed last"
            case copy = "a helper is made, read, and removed before the document is written"
            case aside = "the document is renamed aside, made anew, and the old file removed"
            case asideAndRename =
                "the document is renamed aside, a new file renamed to it, and the old file removed"
            case linked = "the document is linked aside, a new file renamed over it, and the old file removed"

            func steps(_ helper: String, _ round: Int) -> [[String]] {
                let text = "new \(round)"
                let write = [
                    ["open", "d", "notes.md", "O_WRONLY|O_TRUNC"], ["write", "d", text], ["close", "d"],
                ]
                return switch self {
                case .helper: [["put", helper, text]] + write + [["unlink", helper]]
                case .copy: [["put", helper, text], ["read", helper], ["unlink", helper]] + write
                case .aside:
                    [["rename", "notes.md", helper], ["put", "notes.md", text], ["unlink", helper]]
                case .asideAndRename:
                    [
                        ["put", "fresh", text], ["rename", "notes.md", helper],
                        ["rename", "fresh", "notes.md"],
                        ["unlink", helper],
                    ]
                case .linked:
                    [
                        ["put", "fresh", text], ["link", "notes.md", helper],
                        ["rename", "fresh", "notes.md"],
                        ["unlink", helper],
                    ]
                }
            }
        }

        /// How a program replaces an existing backup.
        enum Backup: String, CaseIterable, Sendable {
            case renamed = "the document is renamed to the backup and made anew"
            case renamedTo = "the document is renamed to the backup, and a new file to the document"
            case linked = "the document is linked to the backup, and a new file renamed over the document"

            func steps(_ backup: String, _ round: Int) -> [[String]] {
                let text = "new \(round)"
                let made = [["put", "fresh", text]]
                return switch self {
                case .renamed:
                    [["unlink", backup], ["rename", "notes.md", backup], ["put", "notes.md", text]]
                case .renamedTo:
                    made + [
                        ["unlink", backup], ["rename", "notes.md", backup], ["rename", "fresh", "notes.md"],
                    ]
                case .linked:
                    made + [
                        ["unlink", backup], ["link", "notes.md", backup], ["rename", "fresh", "notes.md"],
                    ]
                }
            }
        }

        static let backups = ["notes.md.bak", "notes.md.orig", "Copy of notes.md"]
        private static let names = ["stA1b2C3", ".notes.md20274", "notes.md_original"]
        /// The longest time of a save in milliseconds. A helper file that exists for a longer time can cause an event. The test
        /// then repeats the save.
        private static let longest = 150

        private static func prepare(_ directory: String) throws {
            try PresenterTests.writeNotes(in: directory)
            for name in backups + ["fence"] { try FileContents.write("old\n", to: directory + "/" + name) }
        }

        /// The commands, with the paths of their files in the mount.
        private static func orders(_ steps: [[String]], _ mount: MountedDirectory) -> [[String]] {
            let places = ["put": 1, "read": 1, "unlink": 1, "rename": 2, "link": 2, "mkdir": 1]
            return steps.map { step in
                let paths = step[0] == "open" ? [2] : Array(1..<1 + (places[step[0]] ?? 0))
                return step.enumerated().map { paths.contains($0) ? mount.path + "/" + $1 : $1 }
            }
        }

        /// True if the program has finished all steps in time.
        private static func perform(
            _ steps: [[String]], by program: ScriptedProcess, in mount: MountedDirectory
        ) throws
            -> Bool
        {
            let before = program.answers.count
            let began = ContinuousClock.now
            for order in orders(steps, mount) { try program.tell(order) }
            _ = try program.answer()
            let took = began.duration(to: .now)
            let answers = program.answers[before...]
            guard answers.allSatisfy({ $0.hasPrefix("ok") }) else {
                throw TestFailure("\(steps): \(answers)")
            }
            return took < .milliseconds(longest)
        }

        /// The questions and events of a folder's presenter in order, each with its message and item.
        private static func told(_ presenter: RunningProgram) throws -> [String] {
            struct Message: Decodable {
                struct Parameters: Decodable {
                    struct Path: Decodable { let path: String? }
                    struct Cause: Decodable { let operation: String? }
                    let subitem: Path?
                    let cause: Cause?
                }
                let method: String
                let params: Parameters
            }
            // The last line of the output may be incomplete.
            return try presenter.text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map
            {
                let message = try JSONDecoder().decode(Message.self, from: Data($0.utf8))
                let isGone = message.params.cause?.operation == "forDeleting"
                return message.method.replacing("presenter/", with: "") + " "
                    + (message.params.subitem?.path ?? "") + (isGone ? " gone" : "")
            }
        }

        /// Waits until the presenter of the folder has all events. A program deletes the file `fence`, and the event of this
        /// deletion comes after all earlier events.
        private static func waitUntilAllIsTold(_ folder: RunningProgram, _ mount: MountedDirectory) throws {
            let other = try ScriptedProcess()
            try other.must("unlink", mount.path + "/fence")
            try eventually(within: .seconds(10), "the deletion of the last file to be told: \(folder.text)") {
                try told(folder).contains("subitemDidChange fence gone")
            }
        }

        /// Saves once with each of the names. Returns the events of the folder's presenter, or nil if a save took too long.
        private static func hear(
            _ names: [String], isPresented: Bool, _ steps: (String, Int) -> [[String]]
        ) throws -> [String]? {
            try MountedDirectory.with(prepare: prepare) { (mount) -> [String]? in
                let document = isPresented ? try PresenterTests.present(mount) : nil
                let (folder, program) = (try PresenterTests.present(mount, "."), try ScriptedProcess())
                for (round, name) in names.enumerated() {
                    guard try perform(steps(name, round), by: program, in: mount) else { return nil }
                    try eventually(within: .seconds(10), "save \(round) to be told: \(folder.text)") {
                        try told(folder).count { $0 == "subitemDidChange notes.md" } > round
                    }
                    #expect(try Program("cat").run(mount.path + "/notes.md").text == "new \(round)")
                }
                try waitUntilAllIsTold(folder, mount)
                let heard = try told(folder).filter { !$0.contains("fence") }
                for presenter in [document, folder] { try presenter?.end() }
                checkForcedSteps(try mount.status())
                return heard
            }
        }

        private static func hearInTime(
            _ names: [String], isPresented: Bool, _ steps: (String, Int) -> [[String]]
        ) throws -> [String] {
            for _ in 1...10 {
                if let told = try hear(names, isPresented: isPresented, steps) { return told }
            }
            throw TestFailure("a program that saves was never run in time")
        }

        @Test(
            "A helper file that a save makes and soon removes causes no event",
            arguments: SaveMethod.allCases, [false, true])
        func shortLivedHelperFilesAreNotReported(save: SaveMethod, isPresented: Bool) throws {
            let told = try Self.hearInTime(Self.names, isPresented: isPresented) { save.steps($0, $1) }
            #expect(told == Self.names.map { _ in "subitemDidChange notes.md" })
        }

        @Test(
            "A backup that a save removes and makes again is reported as changed, and no presenter is asked",
            arguments: Backup.allCases, [false, true])
        func aRecreatedBackupCountsAsChanged(backup: Backup, isPresented: Bool) throws {
            let told = try Self.hearInTime(Self.backups, isPresented: isPresented) { backup.steps($0, $1) }
            let expected = Self.backups.flatMap { ["subitemDidChange \($0)", "subitemDidChange notes.md"] }
            #expect(told.sorted() == expected.sorted(), "\(told)")
        }

        @Test(
            "A folder's presenter is asked about a deletion by an ordinary program, and gets an event of the deletion"
        )
        func aFoldersPresenterIsAskedAboutADeletionAndGetsItsEvent() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (folder, program) = (try PresenterTests.present(mount, "."), try ScriptedProcess())
                try program.must("unlink", mount.path + "/notes.md.bak")
                try eventually(within: .seconds(10), "the deletion to be told: \(folder.text)") {
                    try Self.told(folder).count == 2
                }
                let heard = try Self.told(folder)
                #expect(
                    heard.map { $0.replacing(" gone", with: "") } == [
                        "accommodateSubitemDeletion notes.md.bak", "subitemDidChange notes.md.bak",
                    ])
                try folder.end()
                checkForcedSteps(try mount.status())
            }
        }

        /// Starts a presenter that, when it is asked about a deletion, records whether the file still exists.
        private static func presentLooking(_ mount: MountedDirectory) throws -> RunningProgram {
            let presenter = try TruceCommand.start(
                "present", mount.path, "--on-delete", "cd '\(mount.path)'; ls | sed 's/^/there: /'")
            try eventually(within: .seconds(10), "a presenter: \(presenter.errorText)") {
                presenter.text.contains("presenting")
            }
            return presenter
        }

        @Test(
            "A folder's presenter is asked about a deletion by an ordinary program after the file is gone")
        func folderPresentersAreAskedAfterADeletion() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let folder = try Self.presentLooking(mount)
                try ScriptedProcess().must("unlink", mount.path + "/fence")
                try eventually(within: .seconds(10), "the question: \(folder.text)") {
                    folder.text.contains("there: notes.md")
                }
                #expect(!folder.text.contains("there: fence"), "\(folder.text)")
                try folder.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A folder's presenter is asked before a deletion by `rm`, and before each deletion with policy=fail",
            arguments: [("rm", "policy=proceed"), ("actor", "policy=fail")])
        func rmAsksFolderPresentersBeforeTheDeletion(program: String, policy: String) throws {
            try MountedDirectory.with(policy, prepare: Self.prepare) { mount in
                let (folder, file) = (try Self.presentLooking(mount), mount.path + "/fence")
                if program == "rm" {
                    try Program("rm").run(file)
                } else {
                    try ScriptedProcess().must("unlink", file)
                }
                #expect(folder.text.contains("there: fence"), "\(folder.text)")
                try folder.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "If one program removes a name and another makes it again, a removal and a new file are reported")
        func aNameThatOneProgramRemovesAndAnotherMakesIsReportedTwice() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (folder, program, other) = (
                    try PresenterTests.present(mount, "."), try ScriptedProcess(), try ScriptedProcess()
                )
                try program.must("unlink", mount.path + "/notes.md.bak")
                try other.must("put", mount.path + "/notes.md.bak", "other")
                try eventually(within: .seconds(10), "the new file to be told: \(folder.text)") {
                    try Self.told(folder).last == "subitemDidAppear notes.md.bak"
                }
                #expect(try Self.told(folder).contains("subitemDidChange notes.md.bak gone"))
                try folder.end()
                checkForcedSteps(try mount.status())
            }
        }

        /// The events do not contain the directory's new path, because this path is outside the presenter's folder.
        @Test("Events in a directory that is moved out of the folder have the directory's old path")
        func eventsKeepTheOldPathOfALeavingDirectory() throws {
            let prepare = { (source: String) in
                _ = try Script("mkdir -p \"$1/folder/d\" \"$1/away\"").run(source)
            }
            try MountedDirectory.with(prepare: prepare) { mount in
                let (folder, program, other) = (
                    try PresenterTests.present(mount, "folder"), try ScriptedProcess(), try ScriptedProcess()
                )
                try program.must("put", mount.path + "/folder/d/x", "new")
                try other.must("rename", mount.path + "/folder/d", mount.path + "/away/d")
                try eventually(within: .seconds(10), "the move to be told: \(folder.text)") {
                    try Self.told(folder).contains { $0.hasPrefix("subitemDidMove") }
                }
                let heard = try Self.told(folder)
                #expect(
                    heard == ["subitemDidAppear folder/d/x", "subitemDidMove folder/d"], "\(folder.text)")
                try folder.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("The removal of a directory is reported after the removals of its files")
        func aRemovedDirectoryIsReportedAfterItsFiles() throws {
            try MountedDirectory.with(prepare: Self.prepare) { mount in
                let (folder, program) = (try PresenterTests.present(mount, "."), Program("python3"))
                try Script("mkdir \"$1/d\"; echo a >\"$1/d/a\"; echo b >\"$1/d/b\"").run(mount.path)
                try eventually(within: .seconds(10), "the files to be told: \(folder.text)") {
                    try Self.told(folder).contains("subitemDidAppear d/b")
                }
                try program.run("-c", "import shutil, sys; shutil.rmtree(sys.argv[1])", mount.path + "/d")
                try eventually(within: .seconds(10), "the directory to be told: \(folder.text)") {
                    try Self.told(folder).contains("subitemDidChange d gone")
                }
                let heard = try Self.told(folder).filter {
                    $0.hasSuffix(" gone") && $0.hasPrefix("subitem")
                }
                #expect(heard.last == "subitemDidChange d gone", "\(heard)")
                #expect(heard.count == 3, "\(heard)")
                try folder.end()
                checkForcedSteps(try mount.status())
            }
        }
    }
}
