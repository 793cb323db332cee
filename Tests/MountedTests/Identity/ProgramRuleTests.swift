// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

extension MountTests {
    /// Checks which programs Truce treats differently, because of a user's rules for program names or because of a low
    /// priority.
    @Suite struct ProgramRuleTests {
        /// Makes a user's directory of configuration files, with one configuration file of Truce. Returns environment variables
        /// that make Truce use this directory.
        private static func configuration(_ text: String) throws -> [String: String] {
            let path = try Lab.freshDirectory("configuration")
            try Program("mkdir").run(path + "/truce")
            try FileContents.write(text, to: path + "/truce/truce.toml")
            return ["XDG_CONFIG_HOME": path]
        }

        /// Copies of one program that have other file names.
        private struct Copies {
            let directory: String

            init(of program: String, named names: [String]) throws {
                directory = try Lab.freshDirectory("programs")
                for name in names {
                    try Script("cp \"$(readlink -f \"$(command -v \"$1\")\")\" \"$2\"").run(
                        program, directory + "/" + name)
                }
            }

            func run(_ name: String, _ arguments: String...) throws {
                try Script("exec \"$@\"").attempt(arguments: [directory + "/" + name] + arguments)
                    .requireSuccess()
            }
        }

        @Test("Programs that a rule file or the shipped rules list as background readers cause no save")
        func aRuleFileMakesProgramsBackgroundReaders() throws {
            let environment = try Self.configuration(
                """
                [programs.background]
                names = ["my-backup", "a-name-that-is-cut-off"]
                not = ["rsync"]
                [programs.watcher]
                names = ["my-watch*"]
                """)
            let quiet = ["my-backup", "a-name-that-is-cut-off", "my-watcher", "duplicity", "bup"]
            let ordinary = ["rsync", "your-backup"]
            let copies = try Copies(of: "bash", named: quiet + ordinary)
            try MountedDirectory.with(
                "ask-again=0ms", environment: environment, prepare: PresenterTests.writeNotes
            ) { mount in
                let (notes, read) = (mount.path + "/notes.md", "read -r line <\"$1\"")
                let saver = try SaveCountingPresenter(notes)
                for name in quiet { try copies.run(name, "-c", read, "-", notes) }
                #expect(try saver.count == 0)
                for name in ordinary { try copies.run(name, "-c", read, "-", notes) }
                #expect(try saver.count == ordinary.count)
                try saver.program.end()
                let rules = try TruceCommand.run("rules", mount.path).text
                #expect(rules.contains("not rsync, my-backup, a-name-that-is-"))
                #expect(rules.contains("duplicity"))
                checkForcedSteps(try mount.status())
            }
        }

        @Test("An unlink by a program that a rule file lists as saving by unlink begins a pending save")
        func aRuleFileMakesUnlinkBeginASave() throws {
            let environment = try Self.configuration(
                "[programs.saves-by-unlink]\nnames = [\"my-saver\"]\n[programs.removers]\nnames = [\"your-saver\"]"
            )
            let copies = try Copies(of: "rm", named: ["my-saver", "your-saver", "recode"])
            try MountedDirectory.with(environment: environment, prepare: PresenterTests.writeNotes) { mount in
                let notes = mount.path + "/notes.md"
                let presenter = try PresenterTests.present(mount)
                for (name, isSave) in [("my-saver", true), ("recode", true), ("your-saver", false)] {
                    let before = try mount.status().journal.filter { $0.step == "vacated" }.count
                    try copies.run(name, notes)
                    try PresenterTests.writeNotes(in: mount.path)
                    let after = try mount.status().journal.filter { $0.step == "vacated" }.count
                    #expect(after - before == (isSave ? 1 : 0), "\(name)")
                }
                try presenter.end()
            }
        }

        @Test(
            "A program with the lowest scheduling priority causes no save after it opened 200 documents",
            arguments: ["nice -n 19", "chrt --idle 0", "ionice -c 3", "nice -n 18"])
        func aLowestPriorityProgramCausesNoSaveAfterItOpened200Documents(prefix: String) throws {
            try MountedDirectory.with("ask-again=0ms") { source in
                try PresenterTests.writeNotes(in: source)
                try Script("mkdir \"$1/files\"; cd \"$1/files\"; touch $(seq 250)").run(source)
            } body: { mount in
                let saver = try SaveCountingPresenter(mount.path + "/notes.md")
                let isLowered = prefix != "nice -n 18"
                // The program reads the document once before it has opened many files, and once afterwards.
                let reading = """
                    read -r line <"$1/notes.md"
                    for file in "$1"/files/*; do : <"$file"; done
                    read -r line <"$1/notes.md"
                    """
                try Script("exec \(prefix) bash -c '\(reading)' - \"$1\"").run(mount.path)
                #expect(try saver.count == (isLowered ? 1 : 2))
                // This process has opened only few files, so its read makes the presenter save.
                try Script("exec \(prefix) cat \"$1/notes.md\"").run(mount.path)
                #expect(try saver.count == (isLowered ? 2 : 3))
                try saver.program.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A rule file with an error does not prevent a mount; the mount command, `status` and `doctor` report the error"
        )
        func aRuleFileWithAnErrorIsReportedAndIgnored() throws {
            let environment = try Self.configuration("[programs.background]\nname = [\"my-backup\"]")
            let path = try #require(environment["XDG_CONFIG_HOME"]) + "/truce/truce.toml"
            let mount = try MountedDirectory()
            let outcome = try TruceCommand.run("mount", mount.path, with: environment)
            defer { mount.abandon() }
            let problemText = "\(path):2: unknown key 'name'; known in [programs.background] is 'names'"
            #expect(outcome.errorText.contains(problemText))
            #expect(try TruceCommand.run("status", mount.path).text.contains("\(path) (wrong"))
            let doctor = try TruceCommand.attempt("doctor", mount.path)
            #expect(doctor.ending == .exited(5))
            #expect(doctor.text.contains(problemText))
            let check = try TruceCommand.attempt("rules", "--check", path)
            #expect(check.ending == .exited(1))
            #expect(check.errorText.contains(problemText))
        }
    }
}
