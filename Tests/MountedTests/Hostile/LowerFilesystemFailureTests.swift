// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// If the directory below reports an error, programs get the same error as without Truce, and no program waits for the
    /// failed step.
    ///
    /// `PreservationFailureTests` covers contents that must be preserved while the file system has no room.
    @Suite struct LowerFilesystemFailureTests {
        @Test(
            "When the file system below fails, each call gets the same error with and without Truce",
            arguments: FilesystemFault.total)
        func errorsMatchThoseOfTheFileSystemBelow(kind: FilesystemFault) throws {
            guard Self.isRoot else { return }
            let expected = try FailingFilesystem.with(kind) { try Self.ask($0) }
            let found = try FailingFilesystem.with(kind, options: "wait=60s") { small in
                let answers = try Self.ask(small)
                try small.checkForLeaks()
                return answers
            }
            #expect(expected.map(\.name) == found.map(\.name))
            for (plain, mounted) in zip(expected, found) where plain.answer != mounted.answer {
                let isLimit =
                    try Lab.dataPath == .daemon && Self.limits["\(kind) \(plain.name)"] == mounted.answer
                #expect(isLimit, "\(plain.name): plain \(plain.answer), mounted \(mounted.answer)")
            }
            let failures = found.filter { $0.answer == kind.errno }.count
            print("\(kind): \(found.count) calls, \(failures) of them \(kind.errno)")
            #expect(failures >= 5)
        }

        /// The results that differ when the daemon itself reads and writes the data. The kernel then maps files without a
        /// request: a read of a missing page ends with a signal, and msync or close reports missing room.
        private static let limits = [
            "full store_into_mapped_hole": "ok ENOSPC", "overQuota store_into_mapping": "ok EDQUOT",
            "overQuota store_into_mapped_hole": "ok EDQUOT", "broken store_into_mapping": "ok SIGBUS",
            "broken store_into_mapped_hole": "ok SIGBUS", "broken read_mapping": "ok SIGBUS",
            "failed read_mapping": "ok done",
        ]

        @Test(
            "Contents that cannot be read give a reader an error, and end a program that has mapped them"
        )
        func readErrorsReachReadersAndMappedPrograms() throws {
            guard Self.isRoot else { return }
            let calls = ["read", "open_to_read", "read_mapping", "list_directory"]
            let expected = try FailingFilesystem.with(.unreadable) { try Self.ask($0, calls) }
            let found = try FailingFilesystem.with(.unreadable, options: "wait=60s") { small in
                let answers = try Self.ask(small, calls)
                try small.checkForLeaks()
                return answers
            }
            #expect(expected.map(\.answer) == ["EIO", "EIO", "ok SIGBUS", "ok 3"])
            #expect(found.map(\.answer) == expected.map(\.answer))
        }

        @Test("A write-back error is reported to each descriptor that was open")
        func writebackErrorsReachEveryDescriptor() throws {
            guard Self.isRoot else { return }
            let lose = { (small: FailingFilesystem) in
                let worker = try FailingFilesystem.worker()
                let answer = try worker.must("lose", small.source + "/tree/file", small.place + "/disk")
                try Self.finish(worker)
                return answer
            }
            let expected = try FailingFilesystem.with(.thin) { try lose($0) }
            #expect(expected == "ENOSPC,ENOSPC,ENOSPC")
            try FailingFilesystem.with(.thin, options: "wait=60s") { small in
                #expect(try lose(small) == expected)
                try small.checkForLeaks()
            }
        }

        @Test(
            "An open that waited and then fails lets the next waiting program proceed",
            arguments: [FilesystemFault.broken, .failed, .overQuota])
        func aFailedOpenLetsTheNextProgramProceed(kind: FilesystemFault) throws {
            guard Self.isRoot else { return }
            try FailingFilesystem.with(kind, options: "wait=60s,hold=60s,idle=60s") { small in
                let document = small.source + "/tree/document"
                try FileContents.write("old", to: document)
                let (holder, writer, reader) = (
                    try ScriptedProcess(), try ScriptedProcess(), try ScriptedProcess()
                )
                try holder.must("open", "h", document, "O_WRONLY|O_TRUNC")
                try holder.must("write", "h", "new")
                try writer.tell("open", "w", document, "O_WRONLY|O_TRUNC")
                try small.waitUntilParked(writer)
                try reader.tell("read", document)
                try small.waitUntilParked(reader)
                try small.fail()
                #expect(!writer.isDone && !reader.isDone)
                try holder.must("close", "h")
                #expect(try writer.answer() == kind.errno)
                #expect(try reader.answer() == (kind == .broken ? "EIO" : "ok new"))
                try small.checkForLeaks()
            }
        }

        @Test(
            "A create that fails after its presenter agreed leaves no claim",
            arguments: [FilesystemFault.broken, .failed, .withoutInodes])
        func aFailedCreateLeavesNoClaim(kind: FilesystemFault) throws {
            guard Self.isRoot else { return }
            try FailingFilesystem.with(kind, options: "wait=60s,hold-aware=60s") { small in
                let document = small.source + "/tree/missing"
                try FileContents.write("old", to: small.source + "/tree/document")
                // The presenter is asked to relinquish to a writer, even for a name that has no file yet.
                let presenter = try TruceCommand.start("present", document, "--json")
                try eventually(within: .seconds(10), "'truce present' to register: \(presenter.errorText)") {
                    presenter.errorText.contains("presenting")
                }
                try small.fail()
                let maker = try ScriptedProcess()
                #expect(try maker.ask("open", "w", document, "O_WRONLY|O_CREAT") == kind.errno)
                try small.checkForLeaks()
                try presenter.end()
            }
        }

        @Test("A writer on a full disk delays no other program after it closed the file")
        func aWriterOnAFullDiskDelaysNoProgramAfterClose() throws {
            guard Self.isRoot else { return }
            try FailingFilesystem.with(.full, options: "wait=60s,hold=60s,idle=60s") { small in
                let document = small.source + "/tree/document"
                try FileContents.write("old", to: document)
                let (holder, reader) = (try ScriptedProcess(), try ScriptedProcess())
                try holder.must("open", "h", document, "O_RDWR|O_APPEND")
                try holder.must("write", "h", " and new")
                try reader.tell("read", document)
                try small.waitUntilParked(reader)
                try small.fail()
                let much = String(repeating: "x", count: 8192)
                #expect(try holder.ask("write", "h", much) == "ENOSPC")
                #expect(!reader.isDone)
                try holder.must("close", "h")
                #expect(try reader.answer().hasPrefix("ok old and new"))
                try small.checkForLeaks()
            }
        }

        static let requests: [[String]] = [
            ["open", "w", "DOCUMENT", "O_WRONLY|O_TRUNC"], ["truncate", "DOCUMENT", "1"],
            ["rename", "DOCUMENT", "DOCUMENT-2"], ["unlink", "DOCUMENT"],
        ]

        @Test(
            "A presenter that relinquished for a change that fails may reacquire, and gets no event",
            arguments: [FilesystemFault.broken, .failed], requests)
        func aPresenterReacquiresAfterAFailedChange(kind: FilesystemFault, request: [String]) throws {
            guard Self.isRoot else { return }
            try FailingFilesystem.with(kind, options: "wait=60s") { small in
                let document = small.source + "/tree/document"
                try FileContents.write("old", to: document)
                let presenter = try TruceCommand.start("present", document, "--json")
                try eventually(within: .seconds(10), "'truce present' to register: \(presenter.errorText)") {
                    presenter.errorText.contains("presenting")
                }
                try small.fail()
                let actor = try ScriptedProcess()
                #expect(try actor.ask(request.map { $0.replacing("DOCUMENT", with: document) }) == kind.errno)
                let count = { (word: String) in presenter.text.components(separatedBy: word).count - 1 }
                try eventually(within: .seconds(10), "the presenter's turn: \(presenter.text)") {
                    count("relinquishToWriter") > 0
                        && count("relinquishToWriter") == count("reacquire")
                }
                #expect(!presenter.text.contains("did"), "\(presenter.text)")
                try presenter.end()
                try small.checkForLeaks()
            }
        }

        private static func ask(
            _ small: FailingFilesystem, _ some: [String]? = nil
        ) throws -> [(name: String, answer: String)] {
            let worker = try FailingFilesystem.worker()
            try worker.must("prepare", small.source + "/tree", small.kind.opens)
            let calls = try some ?? worker.must("calls").split(separator: ",").map { String($0) }
            try small.fail()
            let answers = try calls.map { (name: $0, answer: try worker.ask("call", $0)) }
            try worker.must("leave")
            try finish(worker)
            return answers
        }

        private static func finish(_ worker: ScriptedProcess) throws {
            worker.program.endInput()
            _ = try worker.program.wait(within: .seconds(10))
        }

        /// Only root can make loop devices.
        private static var isRoot: Bool {
            if geteuid() != 0 { print("only root can make a file system: shown by the run as root") }
            return geteuid() == 0
        }
    }
}
