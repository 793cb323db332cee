// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// Guarantees, "Contents are preserved before they are lost": before a step overwrites contents, a version of them is written
/// to the disk, and the version survives a kill.
///
/// Each caller of `keep` has a test: a program has written to a document and has it open, and another program overwrites it.
/// Then the daemon is killed, and the next daemon must still have the version.
extension MountTests {
    @Suite struct PreservationTests {
        static let old = "written by the holder"
        /// Options with which no held claim is suspended during the test, and each waiting program waits only for a short time.
        static let impatient = "wait=500ms,hold=60s,idle=60s"
        /// Options with which the claim of an idle holder is suspended soon, before the waits of other programs time out.
        static let yielding = "wait=20s,hold=1s,idle=200ms"

        struct Stage {
            let mount: MountedDirectory
            let document: String
            /// The program that has the document open as "h" and has written `old` to it.
            let holder: ScriptedProcess
            /// The program that overwrites the document.
            let other: ScriptedProcess

            func below() -> String? {
                FileContents.ofFile(mount.below + "/document").map { String(decoding: $0, as: UTF8.self) }
            }
        }

        @Test("An open that truncates preserves the contents that a suspended writer wrote")
        func truncatingPreservesASuspendedWritersContents() throws {
            try Self.keeps([Self.old], as: "claim", Self.yielding, forced: [.suspended]) { stage in
                #expect(try stage.other.must("read", stage.document) == Self.old)
                try stage.other.must("open", "w", stage.document, "O_WRONLY|O_TRUNC")
                #expect(stage.below() == "")
            }
        }

        @Test(
            "An open that goes ahead after its wait timed out preserves the holder's contents",
            arguments: ["O_WRONLY|O_TRUNC", "O_WRONLY", "O_RDWR"])
        func anOpenAfterATimeoutPreservesTheHoldersContents(flags: String) throws {
            try Self.keeps([Self.old], as: "claim", Self.impatient, forced: [.proceeded]) { stage in
                try stage.other.must("open", "w", stage.document, flags)
                try stage.other.must("write", "w", "new")
                #expect(stage.below()?.hasPrefix("new") == true)
                #expect(try stage.mount.counters.proceeded == 1)
            }
        }

        @Test(
            "A truncation by path that goes ahead after its wait timed out preserves the holder's contents",
            arguments: ["0", "7"])
        func aPathTruncationAfterATimeoutPreservesTheHoldersContents(length: String) throws {
            // The truncated contents are also preserved, because the holder continues to write.
            let left = String(Self.old.prefix(Int(length) ?? 0))
            let (kept, cause) = left.isEmpty ? ([Self.old], "claim") : ([Self.old, left], "suspended-writer")
            try Self.keeps(kept, as: cause, Self.impatient, forced: [.proceeded]) { stage in
                try stage.other.must("truncate", stage.document, length)
                #expect(stage.below() == left)
            }
        }

        @Test("The removal of a file that another program is writing preserves its contents")
        func removingAFileWithAWriterPreservesItsContents() throws {
            try Self.keeps([Self.old], as: "claim", Self.impatient) { stage in
                try stage.other.must("unlink", stage.document)
                #expect(stage.below() == nil)
            }
        }

        @Test("The replacement of a file that another program is writing preserves its contents")
        func replacingAFileWithAWriterPreservesItsContents() throws {
            try Self.keeps([Self.old], as: "claim", Self.impatient) { stage in
                try stage.other.must("put", stage.document + "-new", "new")
                try stage.other.must("rename", stage.document + "-new", stage.document)
                #expect(stage.below() == "new")
            }
        }

        @Test("The removal of a backup that another program still writes preserves its contents")
        func removingABackupWithAWriterPreservesItsContents() throws {
            try MountedDirectory.with(Self.impatient, prepare: PresenterTests.writeNotes) { mount in
                let document = mount.path + "/document"
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                let presenter = try PresenterTests.present(mount)
                try other.must("put", document, "begun ")
                try holder.must("open", "h", document, "O_WRONLY|O_APPEND")
                try holder.must("write", "h", "more")
                try other.must("rename", document, document + "~")
                try other.must("put", document, "new")
                try other.must("unlink", document + "~")
                try holder.must("write", "h", " and more")
                try holder.must("close", "h")
                let restored = try Lab.freshDirectory("restored") + "/document"
                // The version was preserved under the backup's name. The document's name must also find it.
                try mount.restore(try #require(try mount.kept("document").first?.id), to: restored)
                #expect(try FileContents.text(of: restored) == "begun more and more")
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "The writes of a running `truce write` are preserved when another program deletes or replaces the file",
            arguments: [
                "rm document", "mv other document", ": >document",
                // Saves that make a backup: as separate steps, and by Vim.
                "mv document document~; echo new >document; rm document~",
                "vim -Nu NONE -i NONE -n -es --cmd 'set backupcopy=no' -c '%s/.*/new/' -c wq document",
                // A save that exchanges the names of the new file and the document.
                "python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"other\", -100, b\"document\", 2)'; rm other",
            ])
        func writesOfAnOpenAccessArePreserved(command: String) throws {
            let bounds = "wait=500ms,hold-aware=60s"
            try MountedDirectory.with(bounds) { mount in
                let document = mount.path + "/document"
                try Script("echo old >\"$1\"; echo new >\"$2\"").run(document, mount.path + "/other")
                let writer = try Script("exec \"$1\" write \"$2\" -- bash -c \"$3\"").start(
                    try Lab.variable("TRUCE_BINARY"), document,
                    "echo begun >document; echo held; read line", at: mount.path, input: .keyboard)
                try eventually(within: .seconds(10), "the command to write") { writer.text == "held\n" }
                let (_, took) = try timed { try Script("bash -c \"$1\"").run(command, at: mount.path) }
                print("'\(command)' went ahead after \(took) (bound 500 ms)")
                try writer.type("\n")
                try writer.wait(within: .seconds(10)).requireSuccess()
                let restored = try Lab.freshDirectory("restored")
                let kept = try mount.kept("document").map { version in
                    try mount.restore(version.id, to: "\(restored)/\(version.id)")
                    return try FileContents.text(of: "\(restored)/\(version.id)")
                }
                // The access's own write to the file is preserved, in addition to the contents that the save replaces.
                #expect(kept.contains("begun\n"), "\(kept)")
                checkForcedSteps(try mount.status(), except: [.proceeded])
            }
        }

        @Test("Versions of files in a directory that a user may not enter are not listed for that user")
        func versionsInAClosedDirectoryAreHidden() throws {
            guard geteuid() == 0 else { return print("only root has other users: shown by the run as root") }
            let prepare = { (source: String) in
                _ = try Script("mkdir -m 700 \"$1/closed\"; echo text >\"$1/closed/document\"").run(source)
            }
            try MountedDirectory.with("allow_other," + Self.impatient, prepare: prepare) { mount in
                let directory = mount.path + "/closed"
                let (place, truce) = (try Lab.freshDirectory("restored"), try Lab.variable("TRUCE_BINARY"))
                try Program("chmod").run("777", place)
                let kept = try ["700", "755"].map { mode in
                    try Program("chmod").run(mode, directory)
                    return try Self.keepRemoved(directory + "/document", of: mount)
                }
                // Two rights decide if a user may read a version: the rights of the place where it was preserved, and of the
                // file's present place.
                let steps: [(change: String, mayRead: [Bool])] = [
                    ("chmod 700 closed", [false, false]), ("chmod 755 closed", [false, true]),
                    ("mv closed open", [false, true]),
                    ("mkdir closed && echo other >closed/document", [false, true]),
                ]
                for (number, step) in steps.enumerated() {
                    try Script("eval \"$1\"").run(step.change, at: mount.path)
                    let listed = try Self.list.attempt(truce, mount.path)
                    for (id, mayRead) in zip(kept, step.mayRead) {
                        let target = "\(place)/\(id)-\(number)"
                        #expect(
                            listed.text.contains(id) == mayRead, "\(step): \(listed.text)\(listed.errorText)")
                        let read = try Self.restore.attempt(truce, mount.path, id, target)
                        #expect(read.isSuccess == mayRead, "\(step): \(read.errorText)")
                        #expect(
                            FileContents.ofFile(target).map { $0 == Array("text more".utf8) }
                                == (mayRead ? true : nil))
                    }
                }
            }
        }

        /// Preserves a file by removing it while a writer has it open.
        private static func keepRemoved(_ document: String, of mount: MountedDirectory) throws -> String {
            let former = Set(try mount.kept().map(\.id))
            let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
            try other.must("put", document, "text ")
            try holder.must("open", "h", document, "O_WRONLY|O_APPEND")
            try holder.must("write", "h", "more")
            try other.must("unlink", document)
            try holder.must("close", "h")
            return try #require(try mount.kept().map(\.id).first { !former.contains($0) })
        }

        @Test("A version that is a hard link may be read only by users that may read the file now")
        func aLinkedVersionIsReadableOnlyIfItsFileIsReadable() throws {
            guard geteuid() == 0 else { return print("only root has other users: shown by the run as root") }
            let prepare = { (source: String) in
                _ = try Script("echo text >\"$1/document\"; ln \"$1/document\" \"$1/link\"").run(source)
            }
            try MountedDirectory.with("allow_other," + Self.impatient, prepare: prepare) { mount in
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                try holder.must("open", "h", mount.path + "/document", "O_WRONLY|O_APPEND")
                try holder.must("write", "h", "more")
                try other.must("unlink", mount.path + "/document")
                // The version is a link as long as a program has the file open to write.
                let id = try #require(try mount.kept().first?.id)
                let (place, truce) = (try Lab.freshDirectory("restored"), try Lab.variable("TRUCE_BINARY"))
                try Program("chmod").run("777", place)
                for (mode, mayRead) in [("644", true), ("600", false)] {
                    try Program("chmod").run(mode, mount.path + "/link")
                    let read = try Self.restore.attempt(truce, mount.path, id, "\(place)/\(mode)")
                    #expect(read.isSuccess == mayRead, "\(mode): \(read.errorText)")
                    #expect((FileContents.ofFile("\(place)/\(mode)") != nil) == mayRead)
                }
                try holder.must("close", "h")
            }
        }

        private static let list = Script(
            "exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$1\" versions \"$2\"")
        private static let restore = Script(
            "exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$1\" versions \"$2\" restore \"$3\" \"$4\""
        )

        @Test(
            "Writes to a removed file are preserved with the file; without writes no version stays",
            arguments: ["write", "overwrite"])
        func writesToARemovedFileArePreserved(call: String) throws {
            let prepare = { (source: String) in try FileContents.write("", to: source + "/document") }
            try MountedDirectory.with(Self.impatient, prepare: prepare) { mount in
                let document = mount.path + "/document"
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                for text in ["more", ""] {
                    try other.must("put", document, "begun ")
                    try holder.must("open", "h", document, "O_WRONLY" + (call == "write" ? "|O_APPEND" : ""))
                    try other.must("unlink", document)
                    #expect(try mount.kept("document").count == (text.isEmpty ? 2 : 1))
                    if !text.isEmpty { try holder.must(call, "h", text) }
                    try holder.must("close", "h")
                }
                try eventually(within: .seconds(10), "the second file to be dropped") {
                    try mount.kept("document").count == 1
                }
                let restored = try Lab.freshDirectory("restored") + "/document"
                try mount.restore(try #require(try mount.kept("document").first?.id), to: restored)
                #expect(try FileContents.text(of: restored) == (call == "write" ? "begun more" : "moren "))
                checkForcedSteps(try mount.status())
            }
        }

        @Test("fstat of a removed open file shows no links, even if the store has a link to the file")
        func fstatOfARemovedOpenFileShowsNoLinks() throws {
            let program = """
                import os, sys
                document = os.open(sys.argv[1], os.O_WRONLY)
                for line in sys.stdin:
                    print(os.fstat(document).st_nlink, flush=True)
                """
            let prepare = { (source: String) in try FileContents.write("text", to: source + "/document") }
            try MountedDirectory.with(Self.impatient, prepare: prepare) { mount in
                let document = mount.path + "/document"
                let writer = try Program("python3").start("-c", program, document, input: .keyboard)
                try writer.type("\n")
                try eventually(within: .seconds(10), "the writer to look") { writer.text == "1\n" }
                try ScriptedProcess().must("unlink", document)
                #expect(try mount.kept("document").count == 1)
                try writer.type("\n")
                try eventually(within: .seconds(10), "the writer to look again") {
                    writer.text.split(separator: "\n").count == 2
                }
                #expect(writer.text == "1\n0\n")
                try writer.end(by: SIGKILL)
            }
        }

        /// Plays a scene, kills the daemon, and reads the preserved versions from the next daemon.
        static func keeps(
            _ contents: [String], as cause: String, _ options: String, forced: Set<ForcedStep> = [],
            _ scene: (Stage) throws -> Void
        ) throws {
            let prepare = { (source: String) in try FileContents.write("", to: source + "/document") }
            try MountedDirectory.with(options, prepare: prepare) { mount in
                let stage = Stage(
                    mount: mount, document: mount.path + "/document", holder: try ScriptedProcess(),
                    other: try ScriptedProcess())
                try stage.holder.must("open", "h", stage.document, "O_WRONLY")
                try stage.holder.must("write", "h", old)
                try scene(stage)
                // A worker counts a version after the step goes ahead.
                try eventually(within: .seconds(10), "the versions to be counted") {
                    try mount.status().counters.kept >= contents.count
                }
                let status = try mount.status()
                #expect(status.counters.kept == contents.count, "\(status.journalText)")
                checkForcedSteps(status, except: forced)
                try mount.kill()
                try mount.mount()
                let place = try Lab.freshDirectory("restored")
                var found: [String] = []
                let entries = try mount.kept("document")
                for (id, _) in entries {
                    try mount.restore(id, to: "\(place)/\(id)")
                    found.append(try FileContents.text(of: "\(place)/\(id)"))
                }
                // The command lists the newest version first.
                #expect(found == contents.reversed())
                #expect(entries.first?.cause == cause)
            }
        }
    }
}
