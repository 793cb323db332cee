// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

extension MountTests {
    /// If programs have a file open or mapped for long, presenters get messages about their writes before the close.
    @Suite struct OpenWriterTests {
        /// The guarantee is one second. The bound is longer because of busy machines.
        private static let bound = Duration.seconds(11)
        /// With these mount options no writer yields or is suspended, because a yield or a suspension would also cause messages
        /// about the writes.
        private static let patient = "wait=120s,hold=60s,idle=60s"

        enum WriteMethod: Sendable { case write, append, size, sync, store }

        /// Each write method, with a file that is opened before or after the presenter registers. Without passthrough, the
        /// daemon notices a write to a mapping only when the kernel writes the page back.
        private static var cases: [(way: WriteMethod, isOpenBefore: Bool)] {
            let isPassthrough = (try? Lab.dataPath) == .passthrough
            let all = [
                (WriteMethod.write, true), (.append, false), (.size, false), (.sync, false), (.store, true),
            ]
            return all.filter { $0.0 != .store || isPassthrough }
        }

        private static func count(_ message: String, _ presenter: RunningProgram) -> Int {
            presenter.text.components(separatedBy: "presenter/" + message).count - 1
        }

        private static func wait(
            for message: String, _ count: Int, _ presenter: RunningProgram, isExact: Bool = true
        ) throws {
            let took = try eventually(within: bound, "\(message) to be told: \(presenter.text)") {
                Self.count(message, presenter) >= count
            }
            print("\(message) was told after \(took.milliseconds) ms (bound 1000 ms)")
            if isExact { #expect(Self.count(message, presenter) == count, "\(presenter.text)") }
        }

        private static func open(_ document: String, _ way: WriteMethod) throws -> ScriptedProcess {
            let writer = try ScriptedProcess()
            let flags =
                [WriteMethod.append: "O_WRONLY|O_APPEND", .sync: "O_RDWR", .store: "O_RDWR"][way]
                ?? "O_WRONLY"
            try writer.must("open", "w", document, flags)
            if way == .sync || way == .store { try writer.must("map", "w") }
            return writer
        }

        private static func write(_ text: String, _ way: WriteMethod, by writer: ScriptedProcess) throws {
            switch way {
            case .write, .append: try writer.must("write", "w", text)
            case .size: try writer.must("size", "w", "\(text.count)")
            case .store: try writer.must("store", "w", text)
            case .sync:
                try writer.must("store", "w", text)
                try writer.must("sync", "w")
            }
        }

        @Test(
            "Writes to a file that stays open are reported to presenters within a second, each once",
            arguments: cases)
        func writesOfAnOpenFileAreReportedWithinASecond(_ one: (way: WriteMethod, isOpenBefore: Bool)) throws
        {
            let (way, isOpenBefore) = one
            try MountedDirectory.with(Self.patient, prepare: PresenterTests.writeNotes) { mount in
                let document = mount.path + "/notes.md"
                let early = isOpenBefore ? try Self.open(document, way) : nil
                let (presenter, folder) = (
                    try PresenterTests.present(mount), try PresenterTests.present(mount, ".")
                )
                let writer = try early ?? Self.open(document, way)
                // After a write to a mapped page, the daemon notices the next write to this page only after the kernel wrote
                // the page back.
                let rounds = way == .store ? 1 : 2
                for round in 1...rounds {
                    try Self.write(String(repeating: "x", count: round), way, by: writer)
                    try Self.wait(for: "didChange", round, presenter)
                    // A truncation is a separate request, so the folder's presenter gets a second event.
                    try Self.wait(for: "subitemDidChange", round, folder, isExact: way != .size)
                }
                try writer.must("close", "w")
                // The writer ends. Then a change of another file causes an event that comes after all events about the writer.
                try ScriptedProcess().must("put", mount.path + "/other.md", "other")
                try Self.wait(for: "subitemDidAppear", 1, folder)
                #expect(Self.count("didChange", presenter) == rounds)
                if way != .size { #expect(Self.count("subitemDidChange", folder) == rounds) }
                for program in [presenter, folder] { try program.end() }
                checkForcedSteps(try mount.status())
            }
        }

        /// How a file that is open for writing comes to a place with a presenter.
        enum ArrivalKind: String, CaseIterable, Sendable {
            case moved, withItsDirectory, linked, overDocument
        }

        @Test(
            "A presenter gets events about a file that is moved or linked to its folder while a writer has it open",
            arguments: ArrivalKind.allCases)
        func aPresenterGetsWritesToAnOpenFileThatIsMovedIntoItsFolder(way: ArrivalKind) throws {
            let prepare = { (source: String) in
                try PresenterTests.writeNotes(in: source)
                try Script("mkdir \"$1/folder\" \"$1/d\"; echo old >\"$1/d/open\"").run(source)
            }
            try MountedDirectory.with(Self.patient, prepare: prepare) { mount in
                let isSave = way == .overDocument
                let (presented, document) = (isSave ? "notes.md" : "folder", mount.path + "/notes.md")
                let file = mount.path + "/d/open"
                let writer = try Self.open(file, .write)
                let presenter = try PresenterTests.present(mount, presented)
                let program = isSave ? writer : try ScriptedProcess()
                switch way {
                case .moved: try program.must("rename", file, mount.path + "/folder/open")
                case .withItsDirectory:
                    try program.must("rename", mount.path + "/d", mount.path + "/folder/d")
                case .linked: try program.must("link", file, mount.path + "/folder/open")
                case .overDocument: try program.must("rename", file, document)
                }
                try Self.wait(for: isSave ? "didChange" : "subitemDidAppear", 1, presenter)
                try Self.write("new", .write, by: writer)
                try Self.wait(for: isSave ? "didChange" : "subitemDidChange", isSave ? 2 : 1, presenter)
                try writer.must("close", "w")
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A program that keeps a file open and writes nothing causes no event")
        func aFileThatIsKeptOpenWithoutWritesCausesNoEvent() throws {
            try MountedDirectory.with(Self.patient, prepare: PresenterTests.writeNotes) { mount in
                let (presenter, folder) = (
                    try PresenterTests.present(mount), try PresenterTests.present(mount, ".")
                )
                let idle = try Self.open(mount.path + "/notes.md", .write)
                try ScriptedProcess().must("put", mount.path + "/other.md", "other")
                try Self.wait(for: "subitemDidAppear", 1, folder)
                let writer = try Self.open(mount.path + "/other.md", .append)
                for round in 1...3 {
                    try Self.write("more", .append, by: writer)
                    try Self.wait(for: "subitemDidChange", round, folder)
                }
                #expect(Self.count("didChange", presenter) == 0)
                #expect(!folder.text.contains("notes.md"), "\(folder.text)")
                for actor in [idle, writer] { try actor.must("close", "w") }
                for program in [presenter, folder] { try program.end() }
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A presenter gets no event of its own save, even if another program has the file open")
        func aPresenterGetsNoEventOfItsOwnSave() throws {
            try MountedDirectory.with(prepare: PresenterTests.writeNotes) { mount in
                let (document, folder) = (mount.path + "/notes.md", try PresenterTests.present(mount, "."))
                let writer = try Self.open(document, .write)
                let presenter = try TruceCommand.start(
                    "present", document, "--json", "--on-change", "true", "--on-save",
                    "echo saved it >\"$TRUCE_PATH\"")
                try eventually(within: .seconds(10), "a presenter: \(presenter.errorText)") {
                    presenter.errorText.contains("presenting")
                }
                #expect(try Program("cat").run(document).text == "saved it\n")
                try Self.wait(for: "subitemDidChange", 1, folder)
                try Self.write("more", .write, by: writer)
                try Self.wait(for: "subitemDidChange", 2, folder)
                try Self.wait(for: "didChange", 1, presenter)
                try writer.must("close", "w")
                for program in [presenter, folder] { try program.end() }
                checkForcedSteps(try mount.status())
            }
        }
    }
}
