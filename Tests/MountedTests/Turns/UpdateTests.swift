// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Checks the turns of three kinds of programs: programs that read and later write by one handle, programs that truncate their
/// open file, and readers at the end of the data.
extension MountTests {
    @Suite struct UpdateTests {
        /// Options with which only readers may go ahead of a holder during the test, because the times `hold` and `idle` are
        /// long.
        static let patient = "wait=120s,hold=60s,idle=60s"

        @Test(
            "While a writer has changed nothing, readers do not wait for it, and other writers wait until its close"
        )
        func readersDoNotWaitForAnUnchangedWriter() throws {
            try Self.withDocument(Self.patient) { mount, document in
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                try holder.must("open", "h", document, "O_RDWR")
                #expect(try ScriptedProcess().must("read", document) == "old")
                try other.tell("open", "o", document, "O_RDWR")
                try mount.waitUntilParked(other.pid)
                try holder.must("size", "h", "0")
                try holder.must("write", "h", "new")
                #expect(!other.isDone)
                try holder.must("close", "h")
                #expect(try other.answer() == "ok")
                try other.must("close", "o")
                #expect(try ScriptedProcess().must("read", document) == "new")
                try mount.checkVersions(are: [])
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A program that has a file open but changes nothing delays writers once by the `idle` time, without a version"
        )
        func anIdleHolderWithoutChangesDelaysWritersOnce() throws {
            try Self.withDocument("wait=120s,hold=60s,idle=1s") { mount, document in
                let holder = try ScriptedProcess()
                try holder.must("open", "h", document, "O_RDWR")
                let append = "bash -c 'echo $2 >>\"$1\"' . \"$1\" $i"
                let script = Script("for ((i = 0; i < 100; i++)); do \(append); done")
                let took = try timed { try script.run(document, within: .seconds(60)) }.took
                print("100 appends beside a program that has the file open took \(took.milliseconds) ms")
                #expect(took < .seconds(2 + 10))
                #expect(try FileContents.text(of: document).hasSuffix("98\n99\n"))
                // One program writes all these lines, so its handles do not wait for each other.
                try Script(
                    "touch \"$1\"; for ((i = 0; i < 30; i++)); do echo $i >\"$1\"; done; echo last >>\"$1\""
                )
                .run(document)
                try mount.checkVersions(are: [])
                let text = "29\nlast\n"
                #expect(try FileContents.text(of: document) == text)
                // The holder truncates data that other programs have written.
                try holder.must("size", "h", "0")
                try holder.must("write", "h", "mine")
                try holder.must("close", "h")
                try mount.checkVersions(are: [text])
                #expect(try FileContents.text(of: document) == "mine")
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A program saves over its own contents although its former open is not released, beside an idle writer"
        )
        func aProgramSavesOverWhatItHasJustLeft() throws {
            try Self.withDocument("wait=120s,hold=60s,idle=300ms") { mount, document in
                let holder = try ScriptedProcess()
                #expect(try FileContents.text(of: document) == "old")
                try holder.must("open", "h", document, "O_RDWR")
                // The copy of the descriptor delays the RELEASE request of the first open.
                try Script(
                    """
                    exec 5>"$1"; echo one >&5; exec 6>&5 5>&-
                    echo two >"$1"; exec 6>&-
                    """
                ).run(document)
                try mount.checkVersions(are: [])
                #expect(try FileContents.text(of: document) == "two\n")
                try holder.must("close", "h")
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "The writes of a program that was granted after the `idle` time are preserved when the former writer writes more",
            arguments: [true, false])
        func writesOfAProgramGrantedAfterTheIdleTimeArePreserved(cuts: Bool) throws {
            try Self.withDocument("wait=120s,hold=60s,idle=300ms") { mount, document in
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                try holder.must("open", "h", document, "O_RDWR")
                try other.must("open", "o", document, "O_RDWR")
                try other.must("size", "o", "0")
                try other.must("write", "o", "by the other")
                try other.must("close", "o")
                // The claim of `other` ends only after the contents that `other` wrote have been copied. The new program then
                // reads.
                #expect(try ScriptedProcess().must("read", document) == "by the other")
                if cuts { try holder.must("size", "h", "0") }
                try holder.must("write", "h", "by the holder")
                try holder.must("close", "h")
                try eventually(within: .seconds(10), "what the other wrote to be kept") {
                    try mount.kept().count == 1
                }
                try mount.checkVersions(are: ["by the other"])
                #expect(try FileContents.text(of: document) == "by the holder")
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A truncation by a handle waits for a reader at most the `lockwait` time, and preserves the truncated contents"
        )
        func aHandleTruncationWaitsForReadersBriefly() throws {
            try Self.withDocument(Self.patient) { mount, document in
                let (holder, reader) = (try ScriptedProcess(), try ScriptedProcess())
                try holder.must("open", "h", document, "O_RDWR")
                try reader.must("open", "r", document, "O_RDONLY")
                let took = try timed { try holder.must("size", "h", "0") }.took
                print("a truncation under a reader took \(took.milliseconds) ms (bound 250 ms)")
                #expect(took < .milliseconds(250) + .seconds(10))
                try mount.checkVersions(are: ["old"])
                try holder.must("write", "h", "new")
                try holder.must("close", "h")
                checkForcedSteps(try mount.status(), except: [.proceeded])
            }
        }

        @Test("A reader at the end of the file delays writers once, and not at each line")
        func aReaderAtTheEndOfAFileDelaysWritersOnce() throws {
            try Self.withDocument(Self.patient) { mount, document in
                let tail = try Program("tail").start("-n", "+1", "-s", "0.1", "-f", document)
                try eventually(within: .seconds(10), "the first text from tail") { tail.text == "old" }
                let writer = try ScriptedProcess()
                let before = try mount.counters.waited
                // The writer opens the file to append, but may also read and overwrite it.
                try writer.must("open", "w", document, "O_RDWR|O_APPEND")
                try writer.must("close", "w")
                for number in 0..<20 {
                    try writer.must("open", "w", document, "O_RDWR|O_APPEND")
                    try writer.must("write", "w", "\(number) ")
                    try writer.must("close", "w")
                    try eventually(within: .seconds(10), "'\(number)' from tail") {
                        tail.text.hasSuffix("\(number) ")
                    }
                }
                #expect(try mount.counters.waited == before + 1)
                try tail.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("Programs that read, pause and write by one handle lose no update")
        func readModifyWriteLosesNoUpdate() throws {
            let (programs, files, rounds, seed) = (4, 3, 12, UInt32.random(in: 0..<1_000_000))
            print("seed \(seed)")
            let prepare = { (source: String) in
                for file in 0..<files { try FileContents.write("[]", to: source + "/\(file).json") }
            }
            try MountedDirectory.with("wait=120s", prepare: prepare) { mount in
                let reader = try Self.started(
                    Program("python3").start(
                        Self.worker, "parse", mount.path, "\(seed)", input: .keyboard))
                let writers = try (0..<programs).map { number in
                    try Self.started(
                        Program("python3").start(
                            Self.worker, "add", mount.path, "\(number)", "\(seed + UInt32(number))",
                            "\(rounds)", "100"))
                }
                for writer in writers { #expect(try Self.end(writer) == ["unparsable": 0]) }
                reader.endInput()
                let read = try Self.end(reader)
                print("\(programs * rounds) updates, \(read)")
                #expect(read["unparsable"] == 0)
                let entries = try (0..<files).flatMap { file in
                    let data = Data(try FileContents.text(of: mount.path + "/\(file).json").utf8)
                    return try JSONDecoder().decode([[Int]].self, from: data)
                }
                #expect(Set(entries).count == programs * rounds && entries.count == programs * rounds)
                try mount.checkDataPath()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "Readers never see a half-written file of a program that truncates up to 50 ms after its open",
            arguments: [0, 50])
        func readersNeverSeeAHalfWrittenFileOfAProgramThatTruncates(milliseconds: Int) throws {
            let seed = UInt32.random(in: 0..<1_000_000)
            print("seed \(seed)")
            let first = String(repeating: "0000000\n", count: 1_000)
            try Self.withDocument("wait=120s", first) { mount, document in
                let reader = try Self.started(
                    Program("python3").start(Self.worker, "whole", document, input: .keyboard))
                let writer = try Self.started(
                    Program("python3").start(
                        Self.worker, "rewrite", document, "\(seed)", "25", "\(milliseconds)"))
                let late = try Self.end(writer)["late"] ?? 0
                reader.endInput()
                let read = try Self.end(reader)
                print("25 rewrites, \(late) of them late, \(read)")
                #expect(read["torn"] ?? 1 <= late)
                try mount.checkDataPath()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A program that reads line by line holds its claim to the end of the file")
        func aProgramThatReadsLineByLineHoldsItsClaimToTheEnd() throws {
            try Self.withDocument("wait=120s", "first\nfirst\n") { mount, document in
                let reader = try Self.started(
                    Program("python3").start(Self.worker, "lines", document, input: .keyboard))
                let writer = try Self.started(
                    Program("python3").start(Self.worker, "replace", document, "20"))
                _ = try Self.end(writer)
                reader.endInput()
                let read = try Self.end(reader)
                print("20 rewrites, \(read)")
                #expect(read["torn"] == 0)
                checkForcedSteps(try mount.status())
            }
        }
    }
}

extension MountTests.UpdateTests {
    private static func withDocument(
        _ options: String, _ text: String = "old",
        _ body: (MountedDirectory, _ document: String) throws -> Void
    ) throws {
        let prepare = { (source: String) in try FileContents.write(text, to: source + "/document") }
        try MountedDirectory.with(options, prepare: prepare) { mount in
            try body(mount, mount.path + "/document")
        }
    }

    private static let worker = Checkout.path("Tests/Workers/updates")

    private static func started(_ program: RunningProgram) throws -> RunningProgram {
        try eventually(within: .seconds(20), "a program to be ready\n\(program.errorText)") {
            program.text.hasPrefix("ready\n")
        }
        return program
    }

    /// The figures in the last line of a program's output.
    private static func end(_ program: RunningProgram) throws -> [String: Int] {
        let text = try program.wait(within: .seconds(120)).requireSuccess().text
        var numbers: [String: Int] = [:]
        for line in text.split(separator: "\n").dropFirst() {
            let words = line.split(separator: " ")
            numbers[String(words[0])] = Int(words[1])
        }
        return numbers
    }
}
