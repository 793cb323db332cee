// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks the result of an open when its document is replaced, moved or deleted while the open waits. After the grant, the
    /// kernel looks up the name again, and the program gets the file that then has the name.
    @Suite struct OpenRetryTests {
        struct Case: CustomTestStringConvertible {
            /// The steps of another program while the open waits.
            let change: [String]
            let request: [String]
            let answer: String
            /// The expected contents under the document's name after the open. `foundAway` has the contents under the name to
            /// which the document was moved.
            var found: String?
            var foundAway: String?
            var testDescription: String { "\(change[0]), then \(request[0])" }
        }

        static let cases = [
            Case(
                change: ["rename", "new", "document"], request: ["read", "document"], answer: "ok new",
                found: "new"),
            Case(
                change: ["rename", "new", "document"], request: ["put", "document", "put"], answer: "ok",
                found: "put"),
            Case(
                change: ["rename", "new", "document"], request: ["truncate", "document", "2"], answer: "ok",
                found: "ne"),
            Case(change: ["unlink", "document"], request: ["read", "document"], answer: "ENOENT"),
            Case(
                change: ["unlink", "document"], request: ["put", "document", "put"], answer: "ok",
                found: "put"),
            // The open gets the moved file, because it had found the file under its former name.
            Case(
                change: ["rename", "document", "away"], request: ["read", "document"], answer: "ok written",
                foundAway: "written"),
            Case(
                change: ["rename", "document", "away"], request: ["put", "document", "put"], answer: "ok",
                foundAway: "put"),
        ]

        /// The value of `O_PATH` in `<fcntl.h>`, which Swift does not import.
        private static let onlyPath: CInt = 0o10_000_000
        private static let names = ["document", "new", "away"]

        @Test("A waiting open gets the file that has the name when the wait is over", arguments: cases)
        func aWaitingOpenGetsTheFileThatHasTheName(_ example: Case) throws {
            try MountedDirectory.with("wait=60s,hold=60s,idle=60s") { mount in
                let (holder, waiter, other) = (
                    try ScriptedProcess(), try ScriptedProcess(), try ScriptedProcess()
                )
                try other.must("put", mount.path + "/new", "new")
                try other.must("put", mount.path + "/document", "old")
                try holder.must("open", "h", mount.path + "/document", "O_WRONLY|O_TRUNC")
                try waiter.tell(example.request.map { Self.names.contains($0) ? mount.path + "/" + $0 : $0 })
                try mount.waitUntilParked(waiter.pid)
                try other.tell(example.change.map { Self.names.contains($0) ? mount.path + "/" + $0 : $0 })
                #expect(try other.answer() == "ok")
                try holder.must("write", "h", "written")
                try holder.must("close", "h")
                #expect(try waiter.answer() == example.answer)
                #expect(FileContents.ofFile(mount.path + "/document") == example.found.map { Array($0.utf8) })
                #expect(FileContents.ofFile(mount.path + "/away") == example.foundAway.map { Array($0.utf8) })
                print(
                    "\(example.testDescription): \(try waiter.answer()), \(try mount.counters.estale) ESTALE")
                // A change of a file's name suspends programs that have the file open.
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        /// The kernel retries a request only once. The file that the retry finds may be a new file that another program still
        /// writes. The open then waits for this writer.
        @Test(
            "An open whose file is replaced twice during its wait waits for the new file's writer, and versions stay",
            arguments: ["O_WRONLY|O_TRUNC", "O_RDWR"])
        func anOpenWhoseFileIsReplacedTwiceWaitsForTheWriter(flags: String) throws {
            try MountedDirectory.with("wait=60s,hold=60s,idle=60s") { mount in
                let (writer, waiter) = (try ScriptedProcess(), try ScriptedProcess())
                // The kernel decides which of the two waiting programs retries first, so several tries may be needed.
                var tries = 0
                repeat {
                    tries += 1
                    try #require(tries <= 50, "the waiter was always the first")
                } while try !Self.isReplacedTwice(mount, writer, waiter, flags)
                print("replaced twice at try \(tries)")
                #expect(try FileContents.text(of: mount.path + "/document") == "third")
                let written = "second, and more, and the rest"
                #expect(!(try mount.listKept().contains("still written by")))
                #expect(try Self.contentsKept(of: mount).contains(written))
                try waiter.must("size", "t", "0")
                try waiter.must("write", "t", "late")
                #expect(try Self.contentsKept(of: mount).contains(written))
                try waiter.must("close", "t")
                let kept = try Self.contentsKept(of: mount)
                #expect(kept.contains(written) && kept.contains("late"), "\(kept)")
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        @Test("Writes to a file by another of its names do not change a version that is a link to the file")
        func writesByAnotherNameLeaveVersionsUnchanged() throws {
            try MountedDirectory.with("wait=60s,hold=60s,idle=60s") { mount in
                let (writer, other) = (try ScriptedProcess(), try ScriptedProcess())
                let document = mount.path + "/document"
                try other.must("put", document, "old")
                try other.must("put", mount.path + "/new", "new")
                try other.must("link", document, mount.path + "/second")
                try writer.must("open", "w", document, "O_WRONLY|O_TRUNC")
                try writer.must("write", "w", "written")
                try other.must("rename", mount.path + "/new", document)
                try writer.must("write", "w", " to its end")
                try writer.must("close", "w")
                try eventually(within: .seconds(10), "what is kept to be the last writer's") {
                    !(try mount.listKept().contains("still written by"))
                }
                #expect(try Self.contentsKept(of: mount) == ["written to its end"])
                try other.must("put", mount.path + "/second", "another")
                #expect(try Self.contentsKept(of: mount) == ["written to its end"])
                #expect(try FileContents.text(of: mount.path + "/second") == "another")
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        /// The output of the program `replaced-saves`.
        private struct Saves: Decodable {
            let done: [String: Int]
            let torn: Int
            let orphans: [String]
            let failures: [String]
        }

        @Test(
            "While programs save by overwriting and by renaming, no reader gets a mix of two saves, and no save is lost"
        )
        func savesByOverwritingAndByRenameLoseNothing() throws {
            try MountedDirectory.with { mount in
                let worker = try Program("python3").run(
                    Checkout.path("Tests/Workers/replaced-saves"), mount.path, "5", "1")
                let saves = try JSONDecoder().decode(Saves.self, from: Data(worker.output))
                print("saves: \(saves.done), of files that were replaced meanwhile \(saves.orphans.count)")
                #expect(saves.torn == 0)
                #expect(saves.failures.isEmpty, "\(saves.failures)")
                let kept = try Set(Self.contentsKept(of: mount).map { String($0.prefix { $0 != " " }) })
                #expect(saves.orphans.allSatisfy(kept.contains), "\(kept.count) of \(saves.orphans.count)")
            }
        }

        /// The contents of all preserved versions.
        private static func contentsKept(of mount: MountedDirectory) throws -> [String] {
            let place = try Lab.freshDirectory("restored")
            return try mount.kept("document").map { entry in
                try mount.restore(entry.id, to: "\(place)/\(entry.id)")
                return try FileContents.text(of: "\(place)/\(entry.id)")
            }
        }

        /// True if the waiter had to wait for the writer a second time.
        private static func isReplacedTwice(
            _ mount: MountedDirectory, _ writer: ScriptedProcess, _ waiter: ScriptedProcess, _ flags: String
        ) throws -> Bool {
            let document = mount.path + "/document"
            let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
            try other.must("put", document, "old")
            for name in ["second", "third"] { try other.must("put", mount.path + "/" + name, name) }
            try holder.must("open", "h", document, "O_WRONLY|O_TRUNC")
            try writer.tell("open", "w", document, "O_WRONLY|O_APPEND")
            try mount.waitUntilParked(writer.pid)
            // The writer writes immediately after its open, because no program waits for a writer that has written nothing.
            try writer.tell("write", "w", ", and more")
            try waiter.tell("open", "t", document, flags)
            try mount.waitUntilParked(waiter.pid)
            try other.must("rename", mount.path + "/second", document)
            try eventually(within: .seconds(10), "one of them to come back") {
                writer.isDone || waiter.isDone
            }
            try holder.must("close", "h")
            guard !waiter.isDone else {
                try waiter.must("close", "t")
                _ = try writer.answer()
                try writer.must("close", "w")
                return false
            }
            try mount.waitUntilParked(waiter.pid)
            try other.must("rename", mount.path + "/third", document)
            #expect(try mount.listKept().contains("(still written by python3 (\(writer.pid)))"))
            try writer.must("write", "w", ", and the rest")
            #expect(!waiter.isDone)
            try writer.must("close", "w")
            #expect(try waiter.answer() == "ok")
            return true
        }

        /// Opens a file after the file was replaced. The path of the open is a link in `/proc`, which still leads to the
        /// replaced file.
        @Test(
            "With presenters, an open that comes after its file was replaced is retried once, and opens the old file"
        )
        func anOpenOfAReplacedFileIsRetriedOnceAndThenOpensTheOldFile() throws {
            try MountedDirectory.with(prepare: PresenterTests.writeNotes) { mount in
                let (other, document) = (try ScriptedProcess(), mount.path + "/document")
                try other.must("put", document, "old")
                let found = open(document, Self.onlyPath | O_CLOEXEC)
                try #require(found >= 0)
                defer { close(found) }
                let link = "/proc/\(getpid())/fd/\(found)"
                try other.must("put", mount.path + "/new", "new")
                try other.must("rename", mount.path + "/new", document)
                #expect(try Program("cat").run(link).text == "old")
                #expect(try mount.counters.estale == 0)
                let presenter = try PresenterTests.present(mount)
                // The open is answered with ESTALE, and the kernel retries it at once. The link still leads to the old file.
                #expect(try Program("cat").run(link).text == "old")
                #expect(try mount.counters.estale == 1)
                #expect(try Program("cat").run(document).text == "new")
                #expect(try mount.counters.estale == 1)
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }
    }
}

extension MountedDirectory {
    /// The output of `truce versions` for the mount.
    fileprivate func listKept() throws -> String { try TruceCommand.run("versions", path).text }
}
