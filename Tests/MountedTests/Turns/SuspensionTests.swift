// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// If an unmodified program is idle or holds a file too long, its claim is suspended. So an open file delays other programs
    /// only for a limited time.
    @Suite struct SuspensionTests {
        /// The margin for a busy machine. The limit `wait` is far longer than the margin, so a wait that ends within the margin
        /// did not time out.
        static let margin = Duration.seconds(10)
        static let bounds = "wait=120s,hold=1s,idle=300ms"
        static let hold = Duration.seconds(1)
        static let idle = Duration.milliseconds(300)
        static let standing = Duration.milliseconds(250)

        @Test("A writer waits at most 250 ms for `tail -f` that has reached the end of the file")
        func tailAtTheEndOfAFileDelaysAWriterOnlyBriefly() throws {
            try Self.withFile { mount, file in
                let tail = try Program("tail").start("-n", "+1", "-f", file)
                try eventually(within: .seconds(10), "the first line from tail") {
                    tail.text == "first line\n"
                }
                let took = try Self.write("under tail", to: file)
                Self.report("tail -f", "a writer", took, Self.standing)
                #expect(took < Self.standing + Self.margin)
                #expect(tail.hasEnded == false)
                #expect(try FileContents.text(of: mount.below + "/file") == "under tail\n")
                let status = try mount.status()
                #expect(status.counters.waited > 0)
                #expect(status.counters.yielded > 0)
                checkForcedSteps(status)
                try tail.end()
            }
        }

        @Test("A writer waits at most 250 ms for `less` that shows the first page of a long file")
        func aPagerThatShowsTheFirstPageDelaysAWriterOnlyBriefly() throws {
            try Self.withFile { mount, file in
                try Script("for ((i = 0; i < 100000; i++)); do echo \"line $i of a long file\"; done >\"$1\"")
                    .run(file)
                let less = try Script("script --quiet --return --command 'less file' /dev/null").start(
                    at: mount.path, with: ["TERM": "xterm"], input: .keyboard)
                try eventually(within: .seconds(10), "the first page from less") {
                    less.text.contains("line 5 of")
                }
                let took = try Self.write("under less", to: file)
                Self.report("less", "a writer", took, Self.standing)
                #expect(took < Self.standing + Self.margin)
                #expect(less.hasEnded == false)
                let status = try mount.status()
                #expect(status.counters.waited > 0)
                #expect(status.counters.yielded + status.counters.suspended > 0)
                // `less` has read only a part of the file, so its claim is suspended, and the old contents are preserved.
                checkForcedSteps(status, except: [.suspended])
                try less.type("q")
                try less.wait(within: .seconds(10)).requireSuccess()
            }
        }

        @Test("A lock on a second descriptor of a reader does not make a writer wait longer")
        func aLockOnAReadersSecondDescriptorDoesNotProlongAWritersWait() throws {
            guard geteuid() == 0 else {
                return print("only root keeps the kernel waiting: shown by root's run")
            }
            let furnish = { (source: String) in try FileContents.write("first line\n", to: source + "/file") }
            try MountedDirectory.with("wait=120s,hold=60s", prepare: furnish) { mount in
                let file = mount.path + "/file"
                let reader = try Program("python3")
                    .start(Checkout.path("Tests/Workers/kept-epoll"), file, input: .keyboard)
                try eventually(within: .seconds(10), "the lock to be kept: \(reader.errorText)") {
                    reader.text == "kept\n"
                }
                let took = try Self.write("under a reader", to: file)
                Self.report("a reader that keeps a lock", "a writer", took, Self.standing)
                #expect(took < Self.standing + Self.margin)
                #expect(reader.hasEnded == false)
                checkForcedSteps(try mount.status(), except: [.suspended])
                try reader.end(by: SIGKILL)
            }
        }

        @Test(
            "A holder that opened a file to write but wrote nothing delays readers by 100 ms and writers by the `idle` time"
        )
        func anIdleHolderWithoutWritesIsSuspended() throws {
            try Self.withHolder("idle") { mount, file in
                let read = try Self.read(file)
                Self.report("an idle O_RDWR holder", "a reader", read, .milliseconds(100))
                #expect(read < .milliseconds(100) + Self.margin)
                let written = try Self.write("under an idle holder", to: file)
                Self.report("an idle O_RDWR holder", "a writer", written, Self.idle)
                #expect(written < Self.idle + Self.margin)
                let status = try mount.status()
                // The program's claim was suspended because the program was idle and had written nothing.
                #expect(status.counters.yielded > 0)
                checkForcedSteps(status)
            }
        }

        @Test(
            "A holder that wrote and then became idle delays readers by the `idle` time and writers by the `hold` time"
        )
        func anIdleHolderThatWroteIsSuspended() throws {
            try Self.withHolder("noted") { mount, file in
                let read = try Self.read(file)
                Self.report("a holder that once wrote", "a reader", read, Self.idle)
                #expect(read < Self.idle + Self.margin)
                let written = try Self.write("under a holder that once wrote", to: file)
                Self.report("a holder that once wrote", "a writer", written, Self.hold)
                #expect(written < Self.hold + Self.margin)
                let status = try mount.status()
                #expect(status.counters.suspended > 0)
                checkForcedSteps(status, except: [.suspended])
            }
        }

        @Test(
            "A slow command delays other programs by the `hold` time, and contents that it later overwrites are preserved"
        )
        func theContentsThatASlowCommandOverwritesArePreserved() throws {
            try Self.withHolder("progress") { mount, file in
                let written = try Self.write("final figures", to: file)
                Self.report("a slow command", "a writer", written, Self.hold)
                #expect(written < Self.hold + Self.margin)
                let read = try Self.read(file)
                // The command used up its time `hold` while the writer waited, so the reader does not wait.
                Self.report("a slow command suspended before", "a reader", read, .zero)
                #expect(read < Self.margin)
                // The slow command continues to write at its old offset, over the text "final figures".
                try eventually(within: .seconds(10), "the slow command to write over the others' work") {
                    try FileContents.text(of: mount.below + "/file").hasPrefix("progress")
                }
                // The overwritten contents are preserved at the latest when another program opens the file.
                _ = try Self.read(file)
                let kept = try Self.kept(file)
                let status = try mount.status()
                // If the slow command writes between the truncation and the write, the end of its line follows, and nothing else.
                let text = "final figures\n"
                let isPreserved = kept.contains {
                    $0.hasPrefix(text) && " of many\n".hasSuffix(String($0.dropFirst(text.count)))
                }
                #expect(isPreserved, "\(kept)\n\(status.journalText())")
                #expect(status.counters.kept > 0)
                #expect(status.counters.suspended > 0)
                checkForcedSteps(status, except: [.suspended])
            }
        }

        @Test(
            "A slow `command > file` delays other programs by the `hold` time, and its output is preserved before an overwrite"
        )
        func theOutputOfASlowRedirectionIsPreserved() throws {
            try Self.withFile { mount, file in
                let slow = try Script(
                    "for ((i = 0; i < 1000; i++)); do echo \"slow line $i\"; sleep 0.1; done >\"$1\""
                ).start(file)
                try eventually(within: .seconds(10), "the slow command's third line") {
                    try FileContents.text(of: mount.below + "/file").contains("slow line 2")
                }
                let read = try Self.read(file)
                Self.report("slow command > file", "a reader", read, Self.hold)
                #expect(read < Self.hold + Self.margin)
                let written = try Self.write("replaced", to: file)
                // The command used up its time `hold` while the reader waited, so the writer does not wait.
                Self.report("slow command > file suspended before", "a writer", written, .zero)
                #expect(written < Self.margin)
                let kept = try Self.kept(file)
                #expect(kept.contains { $0.hasPrefix("slow line 0\nslow line 1\nslow line 2\n") }, "\(kept)")
                #expect(slow.hasEnded == false)
                let status = try mount.status()
                #expect(status.counters.suspended > 0)
                checkForcedSteps(status, except: [.suspended])
                try slow.end()
            }
        }

        @Test(
            "Contents of a program that writes all the time are preserved up to the moment of each truncation"
        )
        func continuousWritesArePreservedUpToTruncation() throws {
            try Self.withFile { mount, file in
                let writer = try Program("python3").start("-c", Self.counting, file, input: .keyboard)
                try eventually(within: .seconds(10), "the writer to begin") { writer.text == "begun\n" }
                // After the suspension, no program waits for the writer.
                _ = try Self.read(file)
                let times = 40
                // The store retains only the first version and the last three versions, so the test reads the versions after
                // each truncation.
                var texts: [String: String] = [:]
                for _ in 0..<times {
                    try Script(": >\"$1\"").run(file)
                    for version in try mount.kept("file") where texts[version.id] == nil {
                        do { texts[version.id] = try mount.text(ofKept: version.id) } catch {
                            // Further versions may have come since the list, so that this one has gone.
                            let isListed = try mount.kept("file").contains { $0.id == version.id }
                            if isListed { throw error }
                        }
                    }
                }
                writer.endInput()
                let text = try writer.wait(within: .seconds(10)).requireSuccess().text
                let count = try #require(Int(text.split(separator: "\n").last ?? ""))
                texts["the file"] = try FileContents.text(of: mount.below + "/file")
                let lines = texts.values.flatMap { $0.split { $0 == "\n" || $0 == "\0" } }
                let found = Set(lines.filter { $0.count == 8 }.compactMap { Int($0) })
                // Data that is written while the kernel truncates the file is in no version.
                let gaps = (0..<count).filter { !found.contains($0) && ($0 == 0 || found.contains($0 - 1)) }
                print("emptied \(times) times; of \(count) lines there are gaps at \(gaps)")
                #expect(count > 100)
                #expect(gaps.count <= times / 4)
                try eventually(within: .seconds(10), "versions to go that are too many") {
                    try mount.kept("file").count <= 1 + 3 + 3
                }
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        private static let counting = """
            import os, select, sys
            file, count = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC), 0
            print("begun", flush=True)
            # Writes a line every two milliseconds until the input ends.
            while not select.select([0], [], [], 0.002)[0]:
                os.write(file, b"%08d\\n" % count)
                count += 1
            print(count)
            """
    }
}

extension MountTests.SuspensionTests {
    private static func withFile(_ body: (MountedDirectory, _ file: String) throws -> Void) throws {
        try MountedDirectory.with(
            bounds, prepare: { try FileContents.write("first line\n", to: $0 + "/file") }
        ) {
            mount in
            try body(mount, mount.path + "/file")
            print("   \(try mount.counters.summary)")
            try mount.checkDataPath()
        }
    }

    /// Runs the body while a holder has the file open. The holder is a sibling of the programs that the body starts.
    private static func withHolder(
        _ habit: String, _ body: (MountedDirectory, _ file: String) throws -> Void
    ) throws {
        try withFile { mount, file in
            let board = try CounterTable()
            let holder = try Worker(board, row: 1, "hold", habit, file)
            try holder.waitUntilReady()
            try body(mount, file)
            board.stop()
            try holder.finish()
        }
    }

    private static func write(_ text: String, to file: String) throws -> Duration {
        try timed { try Script("echo \"$2\" >\"$1\"").run(file, text, within: .seconds(100)) }.took
    }

    private static func read(_ file: String) throws -> Duration {
        try timed { try Program("cat").run(file, within: .seconds(100)) }.took
    }

    private static func report(_ holder: String, _ who: String, _ took: Duration, _ bound: Duration) {
        print("under \(holder) \(who) waited \(took.milliseconds) ms (bound \(bound.milliseconds) ms)")
    }

    @Test(
        "A save is preserved before a suspended program overwrites the save by a write at its old position",
        arguments: [("new", saves: 3), ("kept", saves: 1)])
    func aSaveThatASuspendedWriterOverwritesIsPreserved(_ descriptor: String, saves: Int) throws {
        try Self.withFile { mount, file in
            let worker = Checkout.path("Tests/Workers/placed-writes")
            // The program that has the file open has changed nothing yet, so its claim is suspended after the time `idle`.
            let saved = try Program("python3")
                .run(worker, file, "5", "\(saves)", descriptor, within: .seconds(60)).text
            #expect(saved.split(separator: "\n").count == 5 * saves)
            let lost = Set(saved.split(separator: "\n").map(String.init)).subtracting(try Self.kept(file))
            let journal = try mount.status().journalText()
            #expect(lost.isEmpty, "\(journal)")
        }
    }

    /// The contents of all versions of a file. The command `truce versions` restores each version to a new file.
    private static func kept(_ file: String) throws -> [String] {
        let place = try Lab.freshDirectory("restored")
        let list = try TruceCommand.run("versions", file).text
        return try list.split(separator: "\n").map { line in
            let id = String(line.prefix { $0 != " " })
            try TruceCommand.run("versions", file, "restore", id, "\(place)/\(id)")
            return try FileContents.text(of: "\(place)/\(id)")
        }
    }
}
