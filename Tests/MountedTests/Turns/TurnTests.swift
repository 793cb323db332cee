// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Between a writer's open and its close, no other program's open of the file succeeds.
    @Suite struct TurnTests {
        @Test(
            "A file that a shell removes is gone at once, even if the shell has just made a directory named tmpdir"
        )
        func aFileThatAShellRemovesIsGoneAtOnce() throws {
            try MountedDirectory.with("hold=60s") { mount in
                let script = Script("cd \"$1\"; touch a.txt; mkdir tmpdir; rm a.txt; ls")
                let listed = try script.run(mount.path).text
                #expect(listed == "tmpdir\n")
                checkForcedSteps(try mount.status())
            }
        }

        /// Rule Y6: a program waits at most `hold` for a holder, however many handles the holder opens one after the other.
        @Test(
            "A program whose opens of a file overlap in time delays a writer no longer than the `hold` time")
        func overlappingOpensDelayAWriterAtMostTheHoldTime() throws {
            try MountedDirectory.with("hold=1s,wait=60s") { mount in
                let document = mount.path + "/document"
                let other = try ScriptedProcess()
                try other.must("put", document, "text")
                let reader = try Program("python3").start(
                    "-c",
                    """
                    import os, sys, time
                    held = []
                    while True:
                        held.append(os.open(sys.argv[1], os.O_RDONLY))
                        if len(held) > 6: os.close(held.pop(0))
                        if len(held) == 6: print("reading", flush=True)
                        time.sleep(0.05)
                    """, document)
                defer { reader.send(SIGKILL) }
                try eventually(within: .seconds(10), "the reader") { reader.text.contains("reading") }
                let took = try timed { try other.must("put", document, "new", within: .seconds(70)) }.1
                print(
                    "a reader by many handles kept a writer out for \(took.milliseconds) ms (bound 1000 ms)")
                #expect(took < .seconds(11))
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        @Test(
            "A document is still treated as a document, and a log as a log, after it gets another name",
            arguments: ["link", "look", "list", "replace", "ask"])
        func aDocumentOrLogIsTreatedAsBeforeAfterItGetsAnotherName(by way: String) throws {
            try MountedDirectory.with("wait=60s,hold=60s,idle=60s") { mount in
                let (holder, waiter, other) = (
                    try ScriptedProcess(), try ScriptedProcess(), try ScriptedProcess()
                )
                let (document, log) = (mount.path + "/notes.md", mount.path + "/app.log")
                for file in [document, log] { try other.must("put", file, "old") }
                let names = { (below: Bool) in
                    let place = below ? mount.below : mount.path
                    return [
                        [place + "/notes.md", place + "/notes.md~"], [place + "/app.log", place + "/logged"],
                    ]
                }
                // The daemon gets no events of changes in the source. It learns of a name that was made in the source only by a
                // look-up.
                for pair in names(way != "link") { try other.must("link", pair[0], pair[1]) }
                try holder.must("open", "h", document, "O_WRONLY|O_TRUNC")
                try holder.must("open", "l", log, "O_WRONLY|O_APPEND")
                switch way {
                case "look": try Program("stat").run(mount.path + "/notes.md~", mount.path + "/logged")
                case "list": try Program("ls").run("-l", mount.path)
                case "replace":
                    try Program("ln").run("--force", document, mount.path + "/notes.md~")
                    try Program("ln").run("--force", log, mount.path + "/logged")
                case "ask":
                    try TruceCommand.run("why", mount.path + "/notes.md~")
                    try TruceCommand.run("why", mount.path + "/logged")
                default: break
                }
                for name in ["/notes.md", "/notes.md~"] {
                    try waiter.tell("read", mount.path + name)
                    try mount.waitUntilParked(waiter.pid)
                    try holder.must("write", "h", "new")
                    try holder.must("close", "h")
                    #expect(try waiter.answer().hasSuffix("new"))
                    try holder.must("open", "h", document, "O_WRONLY|O_TRUNC")
                }
                // A program that appends to a log does not wait for other appenders.
                try other.must("open", "l", log, "O_WRONLY|O_APPEND")
                try other.must("open", "m", mount.path + "/logged", "O_WRONLY|O_APPEND")
                try holder.must("close", "h")
                checkForcedSteps(try mount.status())
            }
        }

        static let rounds = 1_000
        static let leastWins = 900

        @Test(
            "While two writers rewrite a file 1,000 times each, no reader gets an empty file or a mix of two contents",
            arguments: Form.allCases)
        func concurrentRewritesAreNeverTorn(form: Form) throws {
            let plain = try WriterContention(form, in: Lab.freshDirectory("plain")).play(rounds: 200)
            print("\(form.rawValue) on a plain directory: \(plain)")
            try MountedDirectory.with { mount in
                let contest = try WriterContention(form, in: mount.path)
                let figures = try contest.play(rounds: Self.rounds)
                let status = try mount.status()
                print("\(form.rawValue) on the mount: \(figures)")
                print("   \(status.counters.summary)")

                #expect(figures.torn == 0)
                #expect(figures.empty == 0)
                #expect(figures.reads >= Self.rounds)
                for writer in figures.writers {
                    #expect(writer.rounds >= Self.rounds)
                    // The least number of wins in every 1,000 tries. A failure counts as a try.
                    #expect(writer.wins * Self.rounds >= (writer.rounds + writer.failures) * Self.leastWins)
                    #expect(writer.failures == 0 || form.mayBeReplacedTwice, "\(writer.lastError)")
                    #expect(writer.failures == 0 || writer.lastError == String(cString: strerror(ESTALE)))
                }
                // A rename of a new file over the old file waits for no claim, because the claims are on the old file's inode.
                if form != .renameOver { #expect(status.counters.waited > 0) }
                try mount.checkDataPath()
                checkForcedSteps(status)
            }
        }
    }

    enum Form: String, CaseIterable, Sendable {
        case inPlace = "in-place"
        case renameOver = "rename-over"
        case unlinkCreate = "unlink-create"

        /// True if a file can be removed twice while a writer waits. The kernel looks up the name only once more, so the writer
        /// can get ESTALE.
        var mayBeReplacedTwice: Bool { self == .unlinkCreate }
    }

    /// Two writers and a reader, which are sibling processes, use one file as fast as they can.
    struct WriterContention {
        /// The results of a writer. A win is a turn without interference: no call failed, and just before the close the writer
        /// read back all that it wrote.
        struct Writer {
            var rounds, wins, replaced, failures: Int
            var lastError: String
        }

        struct Figures: CustomStringConvertible {
            var writers: [Writer]
            var reads, complete, torn, empty, missing, stale, failures: Int
            var took: Duration

            var description: String {
                let share = Double(torn + empty) / Double(max(reads, 1)) * 100
                let turns = writers.map {
                    "\($0.rounds) rewrites, \($0.wins) won, \($0.replaced) unlinked meanwhile, \($0.failures) failed"
                }
                return """
                    \(complete) whole reads, \(torn) torn, \(empty) empty (\(Int(share.rounded())) %), \
                    \(missing) found no file, \(stale) ESTALE, \(failures) failed; writers: \
                    \(turns.joined(separator: "; ")); \(took.milliseconds) ms
                    """
            }
        }

        private let form: Form
        private let file: String

        init(_ form: Form, in directory: String) throws {
            self.form = form
            file = directory + "/document"
            try FileContents.write("", to: file)
        }

        /// Runs until each writer has made `rounds` rounds, and the reader has made `rounds` complete reads that began while
        /// both writers ran.
        func play(rounds: Int) throws -> Figures {
            let board = try CounterTable()
            let writers = try (1...2).map { number in
                try Worker(board, row: number, "rewrite", file, form.rawValue, String(number))
            }
            for writer in writers { try writer.waitUntilReady() }
            let reader = try Worker(board, row: 3, "read", file)
            let (_, took) = try timed {
                board.beginCounting()
                try eventually(
                    within: .seconds(100), "\(rounds) rounds of each\n\((writers + [reader]).map(\.numbers))"
                ) {
                    writers.allSatisfy { $0.rounds >= rounds } && reader[.complete] >= rounds
                }
                board.stop()
            }
            for worker in writers + [reader] { try worker.finish() }
            return Self.figures(writers, reader, took)
        }

        private static func figures(_ writers: [Worker], _ reader: Worker, _ took: Duration) -> Figures {
            let turns = writers.map {
                Writer(
                    rounds: $0.rounds, wins: $0[.wins], replaced: $0[.gone], failures: $0.failures,
                    lastError: $0.lastError)
            }
            return Figures(
                writers: turns, reads: reader[.complete] + reader[.torn] + reader[.empty],
                complete: reader[.complete],
                torn: reader[.torn],
                empty: reader[.empty], missing: reader[.missing], stale: reader[.stale],
                failures: reader.failures, took: took
            )
        }
    }
}
