// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// The daemon runs in its own pid namespace, and programs outside this namespace have no pid in it. The daemon's `/proc`
    /// shows the outer namespace, where an equal pid belongs to another process.
    @Suite struct ForeignNamespaceTests {
        @Test(
            "A program without a pid does not count as a relative of its child, and is recognized by its open handle"
        )
        func aProgramWithoutAPidIsNoRelativeOfItsChild() throws {
            try Self.withDaemonElsewhere { place in
                let results = try Lab.freshDirectory("results")
                try Program("mkfifo").run(results + "/go")
                let family = try Self.parent.start(place + "/file", results)
                try eventually(within: .seconds(20), "the child to wait\n\(family.errorText)") {
                    try MountStatus(json: TruceCommand.run("status", "--json", place).output).waiting.contains
                    {
                        $0.actor.pid == 0
                    }
                }
                try Script("echo >\"$1/go\"").run(results)
                try family.wait(within: .seconds(20)).requireSuccess()
                #expect(try FileContents.text(of: results + "/read") == "begun\ndone\n")
                let status = try MountStatus(json: TruceCommand.run("status", "--json", place).output)
                #expect(status.counters.bounced == 0)
                checkForcedSteps(status)
            }
        }

        @Test(
            "Every signal ends the wait of a program without a pid",
            arguments: [SIGTERM, SIGINT, SIGKILL])
        func everySignalEndsTheWaitOfAProgramWithoutAPid(signal: Int32) throws {
            try Self.withDaemonElsewhere { place in
                let writer = try ScriptedProcess()
                try writer.must("put", place + "/file", "text")
                try writer.must("open", "it", place + "/file", "O_WRONLY|O_TRUNC")
                let reader = try Program("cat").start(place + "/file")
                try eventually(within: .seconds(20), "the reader to wait") {
                    try MountStatus(json: TruceCommand.run("status", "--json", place).output).waiting.count
                        == 1
                }
                let (outcome, took) = try timed { () throws -> ProgramResult in
                    reader.send(signal)
                    return try reader.wait(within: .seconds(10), for: "the end by signal \(signal)")
                }
                print("a program without a number ended \(took.milliseconds) ms after signal \(signal)")
                #expect(outcome.ending == .signalled(signal))
                try writer.must("close", "it")
                #expect(try Program("cat").run(place + "/file").text == "")
            }
        }

        /// The daemon runs in a pid namespace of its own, but its `/proc` shows the pids of the test's namespace.
        @Test("A process is not taken for another process that has the same pid in another namespace")
        func equalPidsInTwoNamespacesAreTwoPrograms() throws {
            try Self.withDaemonElsewhere(numbering: getpid()) { place in
                try eventually(within: .seconds(20), "the reader inside to wait") {
                    try MountStatus(json: TruceCommand.run("status", "--json", place).output).waiting.count
                        == 1
                }
                let status = try MountStatus(json: TruceCommand.run("status", "--json", place).output)
                let waiting = try #require(status.waiting.first)
                #expect(waiting.actor.pid == getpid())
                #expect(waiting.actor.program == "")
            }
        }

        private static let parent = Script(
            """
            exec 3>"$1"
            echo begun >&3
            cat "$1" 3>&- >"$2/read" &
            read -r _ <"$2/go"
            echo done >&3
            exec 3>&-
            wait
            """)

        /// Mounts with a daemon in another namespace, runs the body in the test's namespace, and unmounts.
        private static func withDaemonElsewhere(
            numbering reader: Int32 = 0, _ body: (String) throws -> Void
        ) throws {
            guard geteuid() == 0 else {
                return print("only root can make pid namespaces: shown by the run as root")
            }
            let source = try Lab.freshDirectory("source")
            let place = try Lab.freshDirectory("place")
            let data = try Lab.dataPath == .daemon ? "daemon" : "auto"
            let daemon = try elsewhere.start(
                try Lab.variable("TRUCE_BINARY"), source, place, data, String(reader), input: .keyboard)
            defer { daemon.endInput() }
            do {
                // The test waits for the daemon's own line, because `mountpoint` can already see a mount that the daemon does
                // not serve yet.
                try eventually(within: .seconds(20), "the mount\n\(daemon.text)\(daemon.errorText)") {
                    daemon.text.split(separator: "\n").contains("mounted") || daemon.hasEnded
                }
                try body(place)
            } catch {
                _ = try TruceCommand.attempt("unmount", "--lazy", place)
                throw error
            }
            try daemon.type("\n")
            try daemon.wait(within: .seconds(20)).requireSuccess()
        }

        private static let elsewhere = Script(
            """
            exec unshare --pid --fork --kill-child bash -euc '
                "$0" mount -f -o "allow_other,wait=60s,hold=60s,idle=60s,data=$3" "$1" "$2" &
                trap "exec 3>&-; fusermount3 -u -z \"$2\"; wait" EXIT
                until mountpoint -q "$2"; do kill -0 $!; done
                if [[ $4 != 0 ]]; then
                    exec 3>"$2/inside"
                    echo begun >&3
                    echo $(($4 - 1)) >/proc/sys/kernel/ns_last_pid
                    cat "$2/inside" >/dev/null 3>&- &
                fi
                echo mounted
                read -r _ || true
            ' "$1" "$2" "$3" "$4" "$5"
            """)
    }
}
