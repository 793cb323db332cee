// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks that the daemon finds the process behind a request. A process never waits for itself. An unknown process is
    /// related to no other process. The daemon identifies a process only when it needs to.
    @Suite struct RequesterIdentityTests {
        @Test(
            "While no program waits and no presenter is registered, the daemon identifies only programs that use others' files"
        )
        func theDaemonIdentifiesNoProcessWhileNoProgramWaits() throws {
            try MountedDirectory.with(Self.options) { mount in
                try Program("chmod").run("777", mount.path)
                for name in ["one", "two"] {
                    if Self.isRoot {
                        try Self.work.run(
                            mount.path, name, "setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
                    } else {
                        try Self.work.run(mount.path, name, "env")
                    }
                }
                // Each program that opens a file after another program has written it is identified, once.
                let identified = try mount.counters.identified
                print("the work of two scripts: \(identified) programs identified")
                #expect(identified <= Self.mostIdentified)
                // When a program unlinks a file, the daemon reads the program's name, to know if a save follows. The daemon
                // does not read the name anew for each file.
                try Script("rm -r \"$1/one\" \"$1/two\"").run(mount.path)
                print("rm of \(2 * Self.removed) files: \(try mount.counters.identified) looks")
                #expect(try mount.counters.identified <= identified + 2 * Self.removed)
                checkForcedSteps(try mount.status())
                // From here on the daemon needs the identity of the programs.
                let before = try mount.counters.identified
                let writer = try ScriptedProcess()
                try writer.must("put", mount.path + "/file", "text")
                try writer.must("open", "own", mount.path + "/file", "O_WRONLY|O_TRUNC")
                let reader = try Program("cat").start(mount.path + "/file")
                try mount.waitUntilParked(reader.pid)
                try writer.must("close", "own")
                _ = try reader.wait(within: .seconds(10)).requireSuccess()
                #expect(try mount.counters.identified > before)
            }
        }

        private static let removed: UInt64 = 120
        /// Three times the programs that each of the two scripts starts.
        private static let mostIdentified: UInt64 = 2 * 3 * 20
        private static let work = Script(
            """
            cd "$1"
            exec "${@:3}" bash -euc '
                mkdir "$0"
                cd "$0"
                mkdir one
                for ((i = 0; i < 50; i++)); do echo "$i" >"one/$i"; done
                cat one/* >all
                cp -r one two
                ln all hard
                ln -s all soft
                mkfifo pipe
                cat soft hard >/dev/null
                mv all moved
                mv one/1 one/2
                mv two three
                echo more >>moved
                chmod 600 moved
                touch -d 2020-01-01 moved
                truncate -s 3 moved
                truncate -s 1 hard
                grep -rl 7 . >/dev/null || true
                find . -type f -size +1 >/dev/null
                stat -c %s,%a moved >/dev/null
                setfattr -n user.color -v blue hard 2>/dev/null || true
                mkdir -p deep/er/still
                rmdir deep/er/still
                sync .
            ' "$2"
            """)

        @Test("An editor's child counts as the editor, but a program in the editor's terminal pane does not")
        func aProgramInAnEditorsTerminalPaneIsNotTheEditor() throws {
            let results = try Lab.freshDirectory("results")
            try MountedDirectory.with(
                "ask-again=0ms", prepare: { try FileContents.write("saved\n", to: $0 + "/notes.md") }
            ) { mount in
                let editor = try Editor("notes.md", of: mount)
                try editor.type("unsaved;words")
                let notes = mount.path + "/notes.md"
                #expect(try editor.value(of: "join(systemlist(['cat', '\(notes)']))") == "saved")
                #expect(try mount.counters.asked == 0)
                // The same reading program runs once more, now with a terminal of its own, as in a pane of the editor.
                let command =
                    "['sh', '-c', 'cat \(notes) >\(results)/new; mv \(results)/new \(results)/read']"
                _ = try editor.value(of: "jobstart(\(command), {'pty': v:true})")
                try eventually(within: .seconds(20), "the program in the pane to have read") {
                    FileContents.ofFile(results + "/read") != nil
                }
                #expect(try FileContents.text(of: results + "/read") == "unsaved\nwords\n")
                #expect(try mount.counters.asked > 0)
                checkForcedSteps(try mount.status())
                try editor.end()
            }
        }

        @Test(
            "Two programs that one script starts in a terminal pane wait for each other, as separate programs"
        )
        func twoProgramsOfOneScriptWaitForEachOther() throws {
            let results = try Lab.freshDirectory("results")
            try MountedDirectory.with("wait=60s", "hold=60s", "idle=60s") { mount in
                try Program("mkfifo").run(results + "/go")
                try FileContents.write(Self.agents, to: results + "/agents")
                let pane = try Program("script").start(
                    "-qec", "bash \(results)/agents \(mount.path)/notes.md \(results)",
                    results + "/typescript")
                try eventually(within: .seconds(20), "one of the two to wait for the other\n\(pane.text)") {
                    try mount.status().waiting.contains { $0.actor.program == "cat" }
                }
                try Script("echo >\"$1/go\"").run(results)
                try pane.wait(within: .seconds(20)).requireSuccess()
                #expect(try FileContents.text(of: results + "/read") == "begun\ndone\n")
                checkForcedSteps(try mount.status())
            }
        }

        private static let agents = """
            (
                exec 3>"$1"
                echo begun >&3
                touch "$2/open"
                read -r _ <"$2/go"
                echo done >&3
            ) &
            until [ -e "$2/open" ]; do :; done
            cat "$1" >"$2/read" &
            wait
            """

        @Test(
            "A program's threads do not wait for each other's files, and a waiting thread is shown as its program"
        )
        func threadsOfAProgramDoNotWaitForEachOther() throws {
            try MountedDirectory.with(
                "wait=60s", "hold=60s", "idle=60s",
                prepare: { try Script("echo own >\"$1/own\"; echo others >\"$1/others\"").run($0) }
            ) { mount in
                let writer = try ScriptedProcess()
                try writer.must("open", "it", mount.path + "/others", "O_WRONLY|O_TRUNC")
                let program = try Program("python3").start(
                    Checkout.path("Tests/Workers/threads"), mount.path + "/own", mount.path + "/others")
                // The pid identifies the process, although the waiting thread is not the process's first thread.
                try mount.waitUntilParked(program.pid, within: .seconds(20))
                #expect(program.text == "so far\n")
                #expect(
                    try TruceCommand.run("why", mount.path + "/others").text.contains(
                        "(\(program.pid)) waits"))
                try writer.must("write", "it", "new")
                try writer.must("close", "it")
                #expect(try program.wait(within: .seconds(20)).requireSuccess().text == "so far\nnew")
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A program does not wait for its own claim on a file whose opening thread has ended")
        func aProgramDoesNotWaitForItsFileWhoseOpeningThreadHasEnded() throws {
            try MountedDirectory.with(
                "wait=60s", "hold=60s", "idle=60s",
                prepare: { try FileContents.write("text\n", to: $0 + "/own") }
            ) { mount in
                let program = try Program("python3").start("-c", Self.leaving, mount.path + "/own")
                #expect(try program.wait(within: .seconds(20)).requireSuccess().text == "so far\nso far\n")
                checkForcedSteps(try mount.status())
                #expect(try mount.status().counters.kept == 0)
            }
        }

        /// A program whose threads open a file to write and to read, and then end. Afterwards the program opens the file to
        /// read and write.
        private static let leaving = """
            import os, sys, threading
            opened = []
            def hold(flags):
                opened.append(os.open(sys.argv[1], flags))
                if flags == os.O_RDWR:
                    os.write(opened[-1], b"so far\\n")
            for flags in (os.O_RDWR, os.O_RDONLY):
                thread = threading.Thread(target=hold, args=(flags,))
                thread.start()
                thread.join()
                with open(sys.argv[1]) as file:
                    print(file.read(), end="", flush=True)
            os.close(os.open(sys.argv[1], os.O_WRONLY))
            """

        @Test("A writer waits for a reading program whose first thread has ended")
        func aWriterWaitsForAReaderWhoseFirstThreadEnded() throws {
            try MountedDirectory.with(
                "wait=60s", "hold=60s", prepare: { try Script("truncate -s 1G \"$1/own\"").run($0) }
            ) { mount in
                let reader = try Program("python3").start(
                    "-c", Self.headless + Self.reading, mount.path + "/own", input: .keyboard)
                try eventually(within: .seconds(20), "an open file\n\(reader.errorText)") {
                    reader.text == "open\n"
                }
                let writer = try ScriptedProcess()
                try writer.tell(["open", "it", mount.path + "/own", "O_WRONLY"])
                try mount.waitUntilParked(writer.pid)
                // This time is four times as long as a reader may be idle.
                let clock = ContinuousClock()
                let end = clock.now + .seconds(1)
                try eventually(within: .seconds(20), "a second") {
                    try clock.now >= end || mount.status().waiting.isEmpty
                }
                #expect(try mount.status().waiting.count == 1)
                reader.endInput()
                #expect(try writer.answer() == "ok")
                try writer.must("close", "it")
                _ = try reader.wait(within: .seconds(20))
                checkForcedSteps(try mount.status())
            }
        }

        @Test("Look-ups wait for a save by a program whose first thread has ended")
        func lookupsWaitForASaverWhoseFirstThreadEnded() throws {
            try MountedDirectory.with(prepare: { try FileContents.write("text\n", to: $0 + "/own") }) {
                mount in
                let presenter = try TruceCommand.start("present", mount.path + "/own", "--on-delete", "true")
                try eventually(within: .seconds(10), "a presenter: \(presenter.errorText)") {
                    presenter.text.contains("presenting")
                }
                let saver = try Program("python3").start(
                    "-c", Self.headless + Self.moving, mount.path + "/own", input: .keyboard)
                try eventually(within: .seconds(20), "a name to be missing\n\(saver.errorText)") {
                    saver.text == "moved\n"
                }
                let (answer, took) = try timed { try ScriptedProcess().ask("read", mount.path + "/own") }
                #expect(answer == "ENOENT")
                // The daemon treats a saver as running for `SaveLimits.pendingIdle` after its last step.
                #expect(took >= .seconds(1))
                saver.endInput()
                _ = try saver.wait(within: .seconds(20))
                try presenter.end()
            }
        }

        /// A program that runs the function `work` in a second thread, after the first thread has ended.
        private static let headless = """
            import ctypes, os, sys, threading
            def begin(work):
                def run():
                    while True:
                        with open(f"/proc/{os.getpid()}/stat") as file:
                            if file.read().rpartition(")")[2].split()[0] == "Z":
                                break
                    work()
                    os._exit(0)
                threading.Thread(target=run).start()
                ctypes.CDLL(None).pthread_exit(None)

            """

        /// A program that reads a file all the time, so that its offset in the file always changes.
        private static let reading = """
            def work():
                ended = []
                file = os.open(sys.argv[1], os.O_RDONLY)
                print("open", flush=True)
                threading.Thread(target=lambda: ended.append(sys.stdin.read())).start()
                place = 0
                while not ended:
                    place += 1
                    os.lseek(file, place, os.SEEK_SET)
                os.close(file)
            begin(work)
            """

        private static let moving = """
            def work():
                os.rename(sys.argv[1], sys.argv[1] + "~")
                print("moved", flush=True)
                sys.stdin.read()
            begin(work)
            """

        @Test(
            "A program in a nested pid namespace has its pid of the outer namespace, and counts as its parent's child"
        )
        func aProgramInANestedPidNamespaceIsItsParentsChild() throws {
            guard Self.isRoot else {
                return print("only root can make pid namespaces: shown by the run as root")
            }
            let results = try Lab.freshDirectory("results")
            try MountedDirectory.with(
                "allow_other", "wait=60s", "hold=60s", "idle=60s",
                prepare: { try Script("chmod 777 \"$1\"; echo others >\"$1/others\"").run($0) }
            ) { mount in
                let writer = try ScriptedProcess()
                try writer.must("open", "it", mount.path + "/others", "O_WRONLY|O_TRUNC")
                try Program("chmod").run("777", results)
                let program = try Self.below.start(mount.path, results)
                try eventually(within: .seconds(20), "a program to wait\n\(program.errorText)") {
                    try mount.status().waiting.contains { $0.actor.program == "cat" && $0.actor.pid > 0 }
                }
                let waiting = try #require(try mount.status().waiting.first).actor.pid
                #expect(ProcessStatus(of: waiting)?["Name"] == "cat")
                // The program did not wait for the claim of its ancestor outside the namespace.
                #expect(try FileContents.text(of: results + "/own") == "begun\n")
                // The file that the program made belongs to the program's user.
                let made = try Program("stat").run("--format", "%u %g %a", mount.path + "/made")
                #expect(made.text == "12345 12346 640\n")
                try writer.must("close", "it")
                try program.wait(within: .seconds(20)).requireSuccess()
                checkForcedSteps(try mount.status())
            }
        }

        private static let below = Script(
            """
            cd "$1"
            exec 3>own
            echo begun >&3
            unshare --pid --fork --kill-child setpriv --reuid=12345 --regid=12346 --clear-groups \\
                bash -euc 'umask 027; cat own 3>&- >"$1/own"; echo >made; cat others 3>&-' bash "$2"
            """)

        @Test(
            "The first process of a pid namespace counts as no other program's relative")
        func aNamespacesFirstProcessHasNoRelatives() throws {
            guard Self.isRoot else {
                return print("only root can make pid namespaces: shown by the run as root")
            }
            let results = try Lab.freshDirectory("results")
            try MountedDirectory.with("wait=60s", "hold=60s", "idle=60s") { mount in
                try Program("mkfifo").run(results + "/go")
                // The same two programs run twice: as parent and child, and as the first process of a namespace and its child.
                let family = try Self.parent.start(mount.path + "/file", results, "env")
                try eventually(within: .seconds(20), "the child to have read") {
                    FileContents.ofFile(results + "/read").map { !$0.isEmpty } ?? false
                }
                try Script("echo >\"$1/go\"").run(results)
                try family.wait(within: .seconds(20)).requireSuccess()
                #expect(try FileContents.text(of: results + "/read") == "begun\n")

                let strangers = try Self.parent.start(
                    mount.path + "/file", results, "unshare", "--pid", "--fork", "--kill-child")
                try eventually(within: .seconds(20), "the child to wait") {
                    try mount.status().waiting.contains { $0.actor.program == "cat" }
                }
                try Script("echo >\"$1/go\"").run(results)
                try strangers.wait(within: .seconds(20)).requireSuccess()
                #expect(try FileContents.text(of: results + "/read") == "begun\ndone\n")
                checkForcedSteps(try mount.status())
            }
        }

        private static let parent = Script(
            """
            exec "${@:3}" bash -euc '
                exec 3>"$1"
                echo begun >&3
                cat "$1" 3>&- >"$2/read" &
                read -r _ <"$2/go"
                echo done >&3
                exec 3>&-
                wait
            ' bash "$1" "$2"
            """)
    }
}

extension MountTests.RequesterIdentityTests {
    static var isRoot: Bool { geteuid() == 0 }
    /// The mount options. Root needs `allow_other`, because the test then also starts programs of other users.
    static var options: String { isRoot ? "allow_other" : "wait=15s" }
}
