// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Testing
import truce

/// Issue 2, evidence 9: "Wrong command lines […] give one clear sentence on stderr and the documented exit
/// code."
struct CommandLineTests {
    struct Outcome {
        var code: Int32
        var output: String
        var errors: String
    }

    /// The `truce` binary is in the directory of the test's binary.
    static func run(_ arguments: [String], environment: [String] = ["PATH=/usr/bin:/bin"]) throws -> Outcome {
        let own = try #require(readLink("/proc/self/exe"))
        let slash = try #require(own.lastIndex(of: UInt8(ascii: "/")))
        let program = String(decoding: own[...slash], as: UTF8.self) + "truce"
        var spawner = ProcessSpawner(
            program, arguments: (["truce"] + arguments).map { Array($0.utf8) }, environment: environment)
        let output = try Pipe()
        let errors = try Pipe()
        try spawner.pass(output.writeEnd.rawValue, as: STDOUT_FILENO)
        try spawner.pass(errors.writeEnd.rawValue, as: STDERR_FILENO)
        let child = try spawner.start()
        let outputText = String(decoding: try output.reading().readToEnd(), as: UTF8.self)
        let errorText = String(decoding: try errors.reading().readToEnd(), as: UTF8.self)
        return Outcome(code: try OtherProcess.exitCode(of: child), output: outputText, errors: errorText)
    }

    static let wrong: [([String], Int32, String)] = [
        (["mount"], 2, "source"),
        (["mount", "/no/such/directory"], 3, "'/no/such/directory'"),
        (["mount", "/etc/passwd"], 1, "not a directory"),
        (["mount", "/etc", "/no/such/place"], 3, "'/no/such/place'"),
        (["mount", "/etc", "/etc/passwd"], 1, "not a directory"),
        (["mount", "/etc", "-o", "bogus"], 2, "'bogus'"),
        (["mount", "/etc", "-owait=soon"], 2, "'soon'"),
        (["mount", "/etc", "--bogus"], 2, "--bogus"),
        (["mount", "/etc", "/etc", "/etc"], 2, "/etc"),
        (["unmount"], 2, "directory"),
        (["unmount", "/no/such/directory"], 3, "'/no/such/directory'"),
        (["unmount", "/etc"], 3, "not mounted by truce"),
        (["status", "/no/such/directory"], 3, "'/no/such/directory'"),
        (["status", "/etc"], 3, "'/etc'"),
        (["status", "--json", "/etc"], 3, "'/etc'"),
        (["versions"], 2, "path"),
        (["versions", "/etc"], 3, "'/etc'"),
        (["versions", "/etc", "restore", "../x", "/dev/null"], 2, "'../x'"),
        (["versions", "/etc", "restore"], 2, "ID"),
        (["versions", "/etc", "remove"], 2, "ID"),
        (["versions", "/etc", "/etc"], 2, "'/etc' is none of list, show"),
        (["versions", "/etc", "prune", "0123456789abcdef"], 2, "'0123456789abcdef'"),
        (["versions", "/etc", "show", "0123456789abcdef", "0123456789abcdef"], 2, "no use for"),
        (["versions", "/etc", "--tool", "vimdiff"], 2, "'--tool'"),
        (["versions", "/etc", "--since", "soon"], 2, "'soon'"),
        (["serve", "/etc", "/etc"], 2, "serve"),
        (["socket"], 2, "path"),
        (["socket", "/etc"], 3, "'/etc'"),
        (["why"], 2, "path"),
        (["why", "/etc/no/such"], 3, "'/etc/no/such'"),
        (["why", "/etc", "--bogus"], 2, "--bogus"),
        (["ps", "/etc"], 3, "'/etc'"),
        (["ps", "/etc", "/etc"], 2, "/etc"),
        (["present", "/etc"], 2, "--json"),
        (["present", "--json"], 2, "path"),
        (["present", "--json", "/etc"], 3, "'/etc'"),
        (["present", "--on-save", "true", "/etc"], 3, "'/etc'"),
        (["present", "--on-save"], 2, "--on-save"),
        // Exit code 125, as with env(1): the command that `truce read` runs could itself end with 2.
        (["read"], 125, "path"),
        (["read", "/etc"], 125, "COMMAND"),
        (["read", "/etc", "true"], 125, "COMMAND"),
        (["read", "/etc", "--"], 125, "COMMAND"),
        (["read", "/etc", "--", "true"], 125, "'/etc'"),
        (["write", "/no/such/directory/file", "--", "true"], 125, "'/no/such/directory/file'"),
        (["write", "/etc", "--purpose", "", "--", "true"], 125, "--purpose"),
        (["frobnicate"], 2, "frobnicate"),
    ]

    @Test(
        "an invalid command line gets one sentence on standard error and the documented exit code",
        arguments: wrong)
    func anInvalidCommandLineGetsOneSentenceAndAnExitCode(arguments: [String], code: Int32, mentioned: String)
        throws
    {
        let hasDevice = access("/dev/fuse", R_OK | W_OK) == 0
        // Without /dev/fuse, every `truce mount` fails with the same sentence. Another test checks this sentence.
        if arguments.first == "mount", code != 2, !hasDevice { return }
        let outcome = try Self.run(arguments)
        #expect(outcome.code == code, "\(outcome.errors)")
        #expect(outcome.output.isEmpty)
        #expect(outcome.errors.hasPrefix("truce: "))
        #expect(outcome.errors.hasSuffix("\n"))
        #expect(outcome.errors.filter { $0 == "\n" }.count == 1)
        #expect(outcome.errors.contains(mentioned), "\(outcome.errors)")
    }

    @Test("--version prints the versions of the tool, the protocol, libfuse and the FUSE interface")
    func theVersionOptionPrintsAllVersions() throws {
        let outcome = try Self.run(["--version"])
        #expect(outcome.code == 0)
        let words = outcome.output.split(separator: "\n").compactMap {
            $0.split(separator: " ").first.map(String.init)
        }
        #expect(words == ["truce", "protocol", "libfuse", "FUSE"])
    }

    @Test(
        "--help prints the usage to standard output and ends with code 0",
        arguments: [["--help"], ["-h"], ["help", "mount"], ["mount", "-h"]])
    func theHelpOptionPrintsTheUsageToStandardOutput(arguments: [String]) throws {
        let outcome = try Self.run(arguments)
        #expect(outcome.code == 0)
        #expect(outcome.output.contains("USAGE"))
        #expect(outcome.errors.isEmpty)
    }
}
