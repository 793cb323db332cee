// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks the rules for paths: the order of the configuration files, the reading of changed files without a new mount, and
    /// the effect of the rules.
    @Suite struct PolicyTests {
        /// A user's directory of configuration files.
        private struct Configuration {
            let directory: String

            init() throws {
                directory = try Lab.freshDirectory("configuration")
                try Program("mkdir").run(directory + "/truce")
            }

            var file: String { directory + "/truce/truce.toml" }
            var environment: [String: String] { ["XDG_CONFIG_HOME": directory] }
        }

        private static func show(_ path: String, origin: Bool = false) throws -> [String] {
            let outcome =
                origin
                ? try TruceCommand.run("config", "show", "--origin", path)
                : try TruceCommand.run("config", "show", path)
            return outcome.text.split(separator: "\n").map { String($0) }
        }

        @Test(
            "`config show` prints each setting of a path, with the line that decides, as soon as a file has changed"
        )
        func configShowPrintsTheLineThatDecides() throws {
            let user = try Configuration()
            try MountedDirectory.with(environment: user.environment) { mount in
                let (notes, source) = (mount.path + "/a/notes.md", mount.path + "/.truce.toml")
                try Program("mkdir").run(mount.path + "/a")
                let others = [
                    "keep = losses", "keep-for = 2d", "keep-count = 100", "log = changes", "wait = 15s",
                    "hold = 10s",
                ]
                let shownOthers = others.map { "\($0) (the standard value)" }
                #expect(try Self.show(notes) == ["unseen = keep", "class = document"] + others)
                #expect(
                    try Self.show(notes, origin: true) == [
                        "unseen = keep (the standard value)", "class = document (the standard value)",
                    ] + shownOthers)
                try FileContents.write("[[paths]]\npattern = \"*.md\"\nunseen = \"fail\"\n", to: source)
                #expect(
                    try Self.show(notes, origin: true)[0] == "unseen = fail (\(source):3, pattern '*.md')")
                // The user's file goes before the file in the source.
                try FileContents.write(
                    """
                    [[paths]]
                    pattern = ["/a/", "b"]
                    unseen = "keep"
                    [[paths]]
                    pattern = "*.md"
                    programs = ["background", "shells"]
                    unseen = "off"
                    """, to: user.file)
                #expect(
                    try Self.show(notes, origin: true) == [
                        "unseen = off for background, shells (\(user.file):7, pattern '*.md')",
                        "unseen = keep (\(user.file):3, pattern '/a/')",
                        "class = document (the standard value)",
                    ] + shownOthers)
                #expect(
                    try Self.show(mount.path + "/notes.md") == [
                        "unseen = off for background, shells", "unseen = fail", "class = document",
                    ] + others)
                try Program("rm").run(user.file, source)
                #expect(try Self.show(notes)[0] == "unseen = keep")
                let outcome = try TruceCommand.attempt("config", "show", user.directory)
                #expect(outcome.ending == .exited(3) && outcome.errorText.contains("not in a folder mounted"))
            }
        }

        @Test(
            "If a changed file has an error, the command names the line and the reason, and the former rules stay"
        )
        func formerRulesStayDuringAnError() throws {
            let user = try Configuration()
            try FileContents.write("[[paths]]\npattern = \"*\"\nunseen = \"fail\"\n", to: user.file)
            try MountedDirectory.with(environment: user.environment) { mount in
                #expect(try Self.show(mount.path + "/a")[0] == "unseen = fail")
                try FileContents.write("[[paths]]\npattern = \"*\"\nunseen = \"merged\"\n", to: user.file)
                let outcome = try TruceCommand.run("config", "show", mount.path + "/a")
                #expect(outcome.text.hasPrefix("unseen = fail\n"))
                let problem = "\(user.file):3: 'merged' is no value of 'unseen'"
                #expect(outcome.errorText.contains(problem), "\(outcome.errorText)")
                #expect(outcome.errorText.contains("the rules that it had before stay in force"))
                #expect(try TruceCommand.attempt("doctor", mount.path).text.contains(problem))
                // A program that others may replace is not trusted, nor is a file of another user.
                let source = mount.path + "/.truce.toml"
                try Program("ln").run("-s", user.file, source)
                let refused = try TruceCommand.run("config", "show", mount.path + "/a")
                #expect(
                    refused.errorText.contains("\(source): it is a symbolic link"), "\(refused.errorText)")
            }
        }

        @Test("Rules for programs in a changed file take effect without a new mount")
        func rulesForProgramsTakeEffectWithoutANewMount() throws {
            let user = try Configuration()
            try MountedDirectory.with(environment: user.environment) { mount in
                try FileContents.write("[programs.background]\nnames = [\"my-backup\"]\n", to: user.file)
                // An event tells the daemon of the change: no command makes it look at its files.
                try eventually(within: .seconds(20), "the daemon to read the changed file") {
                    try TruceCommand.run("rules", mount.path).text.contains("my-backup")
                }
            }
        }

        @Test("A rule gives the opens of a file other time limits, and `config show` names its line (D274)")
        func aRuleGivesOpensOtherTimeLimits() throws {
            let user = try Configuration()
            try FileContents.write(
                """
                [[paths]]
                pattern = "brief.txt"
                wait = "300ms"
                [[paths]]
                pattern = "loose.txt"
                hold = "300ms"
                """, to: user.file)
            try MountedDirectory.with("wait=60s", "hold=60s", environment: user.environment) { mount in
                let (brief, loose) = (mount.path + "/brief.txt", mount.path + "/loose.txt")
                #expect(
                    try Self.show(brief, origin: true).suffix(2) == [
                        "wait = 300ms (\(user.file):3, pattern 'brief.txt')",
                        "hold = 1m (the standard value)",
                    ])
                #expect(try Self.show(loose).suffix(2) == ["wait = 1m", "hold = 300ms"])
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                // A writer that has emptied its file makes others wait for the whole time.
                let (proceeded, suspended) = (try mount.counters.proceeded, try mount.counters.suspended)
                try holder.must("open", "b", brief, "O_WRONLY|O_CREAT|O_TRUNC")
                try other.must("open", "b", brief, "O_WRONLY")
                #expect(try mount.counters.proceeded == proceeded + 1)
                #expect(try mount.counters.suspended == suspended)
                try holder.must("open", "l", loose, "O_WRONLY|O_CREAT|O_TRUNC")
                try other.must("open", "l", loose, "O_WRONLY")
                #expect(try mount.counters.proceeded == proceeded + 1)
                #expect(try mount.counters.suspended == suspended + 1)
            }
        }

        @Test("A rule gives files another class, also after a move, and only while the rule exists")
        func aRuleGivesFilesAnotherClass() throws {
            let user = try Configuration()
            try MountedDirectory.with(environment: user.environment) { source in
                try Script("mkdir \"$1/kept\" \"$1/other\"; touch \"$1/kept/app.log\" \"$1/other/app.log\"")
                    .run(source)
            } body: { mount in
                let actor = try ScriptedProcess()
                // An open that appends to a log makes no claim.
                let makesClaim = { (name: String) throws -> Bool in
                    let before = try mount.counters.granted
                    try actor.must("open", "h", mount.path + "/" + name, "O_WRONLY|O_APPEND")
                    try actor.must("close", "h")
                    return try mount.counters.granted > before
                }
                #expect(try !makesClaim("kept/app.log"))
                let rule = mount.path + "/.truce.toml"
                try FileContents.write("[[paths]]\npattern = \"kept/\"\nclass = \"document\"\n", to: rule)
                #expect(try Self.show(mount.path + "/kept/app.log")[1] == "class = document")
                #expect(try makesClaim("kept/app.log"))
                #expect(try !makesClaim("other/app.log"))
                try Script("cd \"$1\"; mv kept moved; mv other kept").run(mount.path)
                #expect(try !makesClaim("moved/app.log"))
                #expect(try makesClaim("kept/app.log"))
                try Program("rm").run(rule)
                #expect(try Self.show(mount.path + "/kept/app.log")[1] == "class = log")
                #expect(try !makesClaim("kept/app.log"))
            }
        }

        @Test(
            "A guest gets the settings of files that it may read, without the paths of the configuration files"
        )
        func aGuestGetsNoPathsOfConfigurationFiles() throws {
            guard geteuid() == 0 else { return print("only root has other users: shown by the run as root") }
            let user = try Configuration()
            try FileContents.write("[[paths]]\npattern = \"notes\"\nunseen = \"fail\"\n", to: user.file)
            try MountedDirectory.with("allow_other", environment: user.environment) { source in
                try Script("cd \"$1\"; touch notes secret; chmod 600 secret; chmod 755 .").run(source)
            } body: { mount in
                let show = Script(
                    """
                    exec setpriv --reuid=65534 --regid=65534 --clear-groups \
                        "$1" config show --origin "$2"
                    """)
                let binary = try Lab.variable("TRUCE_BINARY")
                let readable = try show.attempt(arguments: [binary, mount.path + "/notes"])
                #expect(readable.text.hasPrefix("unseen = fail (pattern 'notes')\n"), "\(readable)")
                let secret = try show.attempt(arguments: [binary, mount.path + "/secret"])
                #expect(secret.ending == .exited(6), "\(secret)")
            }
        }
    }
}
