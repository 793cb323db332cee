// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks `truce doctor`, which lists programs that use a mounted directory without the mount.
    @Suite struct MountBypassTests {
        @Test("`doctor` names exactly the programs that bypass a mount by an open descriptor")
        func doctorReportsProgramsThatBypassAMountByAnOpenDescriptor() throws {
            let mount = try MountedDirectory([])
            defer { mount.abandon() }
            try Script("mkdir \"$1/folder\"; echo one >\"$1/document\"").run(mount.path)
            let writer = try Script(
                "exec 5>>\"$1/document\" 6<\"$1\"; cd \"$1/folder\"; echo open; read -r _; exec 5>&-"
            )
            .start(mount.path, input: .keyboard)
            try eventually(within: .seconds(10), "the files to be open") { writer.text == "open\n" }
            try mount.mount()
            let found = try TruceCommand.attempt("doctor", mount.path)
            print(found.text)
            #expect(found.ending == .exited(5), "\(found.text)\(found.errorText)")
            let who = "bash (pid \(writer.pid), user \(geteuid())) has \(mount.path)"
            #expect(found.text.contains("\(who)/document open to write, and bypasses the mount"))
            #expect(found.text.contains("\(who)/folder as its working directory, and bypasses the mount"))
            let json = try TruceCommand.attempt("doctor", "--json", mount.path)
            #expect(json.ending == .exited(5))
            #expect(json.text.contains("\"pid\":\(writer.pid)") && json.text.contains("\"writes\":true"))
            try writer.type("\n")
            try writer.wait(within: .seconds(10)).requireSuccess()
            // The test itself has opened the directory before the mount, so `truce doctor` lists the test.
            let own = try TruceCommand.attempt("doctor", mount.path)
            let lines = own.text.split(separator: "\n").filter {
                $0.contains("bypasses the mount") && !$0.contains(" runs, which")
            }
            #expect(lines.count == 1 && lines.allSatisfy { $0.contains("(pid \(getpid()),") }, "\(own.text)")
            try mount.unmount()
        }

        @Test("`doctor` reports a daemon as dead that dies during the examination")
        func aDaemonDyingDuringDoctorIsReportedDead() throws {
            let mount = try MountedDirectory([])
            defer { mount.abandon() }
            try mount.mount()
            let calls = try Lab.freshDirectory("doctor") + "/calls"
            // The tracer stops the command after it has found the daemon alive and before it sends its request. The tracer is a
            // grandchild of the command.
            let doctor = try Program("strace").start(
                "-D", "--follow-forks", "--output=\(calls)", "--trace-path=\(mount.path)", "--trace=statfs",
                "--inject=statfs:signal=STOP:when=1", try Lab.variable("TRUCE_BINARY"), "doctor", mount.path)
            try eventually(within: .seconds(10), "doctor to be stopped\n\(doctor.errorText)") {
                if doctor.hasEnded { throw TestFailure("\(doctor.text)\(doctor.errorText)") }
                return FileContents.ofFile(calls).map { String(decoding: $0, as: UTF8.self) }?
                    .contains("stopped by SIGSTOP") == true
            }
            try mount.kill()
            doctor.send(SIGCONT)
            let outcome = try doctor.wait(within: .seconds(10))
            #expect(outcome.ending == .exited(5), "\(outcome.text)\(outcome.errorText)")
            #expect(outcome.text.contains("its daemon has died: "))
        }

        @Test("`doctor` names a program that mapped a file before the mount and has no descriptor of it")
        func doctorReportsProgramsThatMappedAFileBeforeTheMount() throws {
            let mount = try MountedDirectory([])
            defer { mount.abandon() }
            let board = try CounterTable()
            defer { board.stop() }
            let habits = ["shared", "looking", "private"]
            let workers = try habits.enumerated().map { index, habit in
                let file = mount.path + "/" + habit
                try FileContents.write("text\n", to: file)
                return try Worker(board, row: index + 1, "map", habit, file)
            }
            for worker in workers { try worker.waitUntilReady() }
            try mount.mount()
            let found = try TruceCommand.attempt("doctor", mount.path)
            print(found.text)
            #expect(found.ending == .exited(5), "\(found.text)\(found.errorText)")
            for (worker, habit) in zip(workers, habits) {
                let who = "TestWorker (pid \(worker.program.pid), user \(geteuid()))"
                let use = habit == "shared" ? "mapped to write" : "mapped to read"
                #expect(
                    found.text.contains("\(who) has \(mount.path)/\(habit) \(use), and bypasses"),
                    "\(habit)")
            }
            try mount.unmount()
            board.stop()
            for worker in workers { try worker.finish() }
        }

        /// A program whose first thread has ended. `/proc` then shows no details of the process under the first thread.
        private static let headless = """
            import ctypes, os, sys, threading
            file = open(sys.argv[1])
            os.chdir(os.path.dirname(sys.argv[1]))
            print("open", flush=True)
            threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()
            ctypes.CDLL(None).pthread_exit(None)
            """

        private func startHeadless(_ path: String) throws -> RunningProgram {
            let program = try Program("python3").start("-c", Self.headless, path, input: .keyboard)
            try eventually(within: .seconds(20), "the end of the first thread\n\(program.errorText)") {
                program.text == "open\n" && ProcessStatus(of: program.pid)?["State"]?.first == "Z"
            }
            return program
        }

        @Test(
            "`doctor` and a failed unmount name programs whose first thread has ended")
        func doctorNamesProgramsWhoseFirstThreadHasEnded() throws {
            let mount = try MountedDirectory([])
            defer { mount.abandon() }
            try FileContents.write("text\n", to: mount.path + "/document")
            let before = try startHeadless(mount.path + "/document")
            try mount.mount()
            let after = try startHeadless(mount.path + "/document")
            let found = try TruceCommand.attempt("doctor", mount.path)
            print(found.text)
            let who = "python3 (pid \(before.pid), user \(geteuid())) has \(mount.path)"
            #expect(found.text.contains("\(who)/document open to read, and bypasses the mount"))
            #expect(found.text.contains("\(who) as its working directory, and bypasses the mount"))
            #expect(!found.text.contains("(pid \(after.pid),"))
            let refused = try TruceCommand.attempt("unmount", mount.path)
            print(refused.errorText)
            #expect(refused.ending != .exited(0))
            #expect(refused.errorText.contains("pid \(after.pid) (python3) open \(mount.path)/document"))
            #expect(refused.errorText.contains("pid \(after.pid) (python3) working directory \(mount.path)"))
            for program in [before, after] {
                program.endInput()
                try program.wait(within: .seconds(20)).requireSuccess()
            }
            try mount.unmount()
        }

        @Test("`doctor` does not report a program that maps a file through the mount")
        func mappingsThroughTheMountAreNoBypass() throws {
            try MountedDirectory.with { mount in
                try FileContents.write("text\n", to: mount.path + "/file")
                let board = try CounterTable()
                let worker = try Worker(board, row: 1, "map", "looking", mount.path + "/file")
                defer { board.stop() }
                try worker.waitUntilReady()
                let found = try TruceCommand.attempt("doctor", mount.path)
                #expect(!found.text.contains("(pid \(worker.program.pid),"), "\(found.text)")
                board.stop()
                try worker.finish()
            }
        }

        @Test("`doctor` names a program that moved to another mount namespace with a file open")
        func doctorReportsProcessesInOtherMountNamespaces() throws {
            guard geteuid() == 0 else { return print("only root has namespaces: shown by the run as root") }
            let mount = try MountedDirectory([])
            defer { mount.abandon() }
            let leaver = try Script(
                """
                echo one >"$1/document"
                exec 5<"$1/document"
                exec unshare --mount --propagation=private bash -euc 'echo away; read -r _'
                """
            )
            .start(mount.path, input: .keyboard)
            try eventually(within: .seconds(10), "the program to be away") { leaver.text == "away\n" }
            try mount.mount()
            let found = try TruceCommand.attempt("doctor", mount.path)
            print(found.text)
            let sentence =
                "bash (pid \(leaver.pid), user 0) has \(mount.path)/document open to read, and bypasses"
            #expect(found.text.contains(sentence))
            try leaver.type("\n")
            try leaver.wait(within: .seconds(10)).requireSuccess()
            try mount.unmount()
        }

        @Test("`doctor` shows a user only the user's own programs, and says how many it could not examine")
        func doctorSaysHowManyProgramsTheUserMayNotInspect() throws {
            guard geteuid() == 0 else {
                return print("only root can act as others: shown by the run as root")
            }
            let mount = try MountedDirectory(["allow_other"])
            defer { mount.abandon() }
            try Self.furnish.run(mount.path)
            let roots = try Script("exec 5>>\"$1/document\"; echo open; read -r _").start(
                mount.path, input: .keyboard)
            let users = try Self.users.start(mount.path, input: .keyboard)
            try eventually(within: .seconds(10), "the files to be open: \(users.errorText)") {
                roots.text == "open\n" && users.text == "open\n"
            }
            try mount.mount()
            let binary = try Lab.variable("TRUCE_BINARY")
            let own = try Self.asUser.attempt("12345", binary, mount.path)
            print(own.text)
            #expect(own.ending == .exited(5), "\(own.text)\(own.errorText)")
            let who = "shell (pid \(users.pid), user 12345) has \(mount.path)"
            #expect(own.text.contains("\(who)/document open to read, and bypasses the mount"))
            #expect(own.text.contains("\(who)/shell mapped to read, and bypasses the mount"))
            let other = try Self.asUser.attempt("12346", binary, mount.path)
            #expect(
                other.ending == .exited(0) && other.text.contains("nothing odd can be seen"), "\(other.text)")
            let hidden = try Self.withoutOthers.attempt("12346", binary, mount.path)
            #expect(hidden.text.contains("could not examine processes of other users "), "\(hidden.text)")
            for outcome in [own, other] {
                #expect(outcome.text.contains(#/could not examine [1-9][0-9]* processes of other users /#))
                #expect(!outcome.text.contains("(pid \(roots.pid),"), "\(outcome.text)")
            }
            #expect(!other.text.contains("(pid \(users.pid),"), "\(other.text)")
            for program in [roots, users] {
                try program.type("\n")
                try program.wait(within: .seconds(10)).requireSuccess()
            }
            try mount.unmount()
        }

        private static let furnish = Script(
            """
            cd "$1"
            echo one >document
            cp "$(command -v bash)" shell
            """)

        /// Two uses of the directory: a program is run from a file in it, and has another file of it open.
        private static let users = Script(
            """
            exec setpriv --reuid=12345 --regid=12345 --clear-groups "$1/shell" -euc '
                exec 5<"$1/document"
                echo open
                read -r _' shell "$1"
            """)

        private static let asUser = Script(
            "exec setpriv --reuid=\"$1\" --regid=\"$1\" --clear-groups \"$2\" doctor \"$3\"")

        private static let withoutOthers = Script(
            """
            exec unshare --mount --pid --fork --propagation=private bash -euc '
                mount -t proc -o hidepid=invisible proc /proc
                exec setpriv --reuid="$1" --regid="$1" --clear-groups "$2" doctor "$3"' bash "$1" "$2" "$3"
            """)

        /// The test needs a place where no other mount namespaces of the machine are visible. Such a namespace may show the
        /// files without the mount.
        @Test(
            "`doctor` reports nothing for a mount without bypasses, and reports bind mounts and dead daemons"
        )
        func doctorReportsBindMountsAndDeadDaemons() throws {
            guard geteuid() == 0 else { return print("only root mounts by itself: shown by the run as root") }
            let outcome = try Self.alone.attempt(
                try Lab.variable("TRUCE_BINARY"), try Lab.freshDirectory("doctor"))
            print(outcome.text)
            let isSuccess = outcome.isSuccess
            #expect(isSuccess, "\(outcome.text)\(outcome.errorText)")
            let lines = outcome.text.split(separator: "\n").filter { !$0.hasPrefix("/") }
            #expect(lines.count == 3)
            #expect(lines.first == "  nothing is odd")
            #expect(
                lines.dropFirst().first?.hasSuffix("/elsewhere/folder, which bypasses the mount")
                    == true)
            #expect(lines.last?.hasPrefix("  its daemon has died: ") == true)
        }

        private static let alone = Script(
            """
            exec unshare --mount --pid --fork --mount-proc --propagation=private bash -euc '
                truce=$1
                cd "$2"
                mkdir around around/folder elsewhere run
                export XDG_RUNTIME_DIR=$PWD/run
                "$truce" mount around/folder >run/log
                trap "\"$truce\" unmount \"$PWD/around/folder\"" EXIT
                "$truce" doctor around/folder
                mount --bind around elsewhere
                status=0
                "$truce" doctor around/folder || status=$?
                ((status == 5))
                umount elsewhere
                kill -KILL "$(sed "s/.*pid \\([0-9]*\\).*/\\1/" run/log)"
                status=0
                "$truce" doctor "$PWD/around/folder" || status=$?
                ((status == 5))' \\
                bash "$1" "$2"
            """)
    }
}
