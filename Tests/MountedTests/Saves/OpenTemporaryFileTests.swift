// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks programs that give a helper file the document's name before they close it. From then on the document has a writer
    /// that does not wait for its turn.
    @Suite struct OpenTemporaryFileTests {
        static let helpers = [".#document", ".goutputstream-A1B2C3", "document.log"]

        @Test(
            "Writes to a renamed helper file before and after its replacement by another program are preserved",
            arguments: helpers)
        func writesAfterAHelperFilesReplacementArePreserved(helper: String) throws {
            try Self.with(PreservationTests.impatient, helper) { mount, holder in
                let (document, other) = (mount.path + "/document", try ScriptedProcess())
                try holder.must("rename", mount.path + "/" + helper, document)
                try holder.must("write", "h", ", continued")
                try other.must("rename", mount.path + "/new", document)
                try holder.must("write", "h", ", finished")
                try holder.must("close", "h")
                let entry = try #require(try mount.kept("document").first)
                #expect(try mount.text(ofKept: entry.id) == "begun, continued, finished")
                #expect(try FileContents.text(of: document) == "new")
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "Writes to a renamed helper file before its replacement by another program are preserved",
            arguments: helpers)
        func writesBeforeAHelperFilesReplacementArePreserved(helper: String) throws {
            try Self.with(PreservationTests.impatient, helper) { mount, holder in
                let (document, other) = (mount.path + "/document", try ScriptedProcess())
                try holder.must("rename", mount.path + "/" + helper, document)
                try holder.must("write", "h", ", continued")
                try Self.settle(mount.below + "/document")
                try other.must("rename", mount.path + "/new", document)
                try Self.close(holder, in: mount)
                let entry = try #require(try mount.kept("document").first)
                #expect(try mount.text(ofKept: entry.id) == "begun, continued")
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "Writes to a renamed log before its removal, by a program without a claim, are preserved"
        )
        func writesBeforeARenamedLogsRemovalArePreserved() throws {
            try Self.with(PreservationTests.impatient, "document.log") { mount, holder in
                let (second, other, old) = (
                    try ScriptedProcess(), try ScriptedProcess(), mount.path + "/document.log.old"
                )
                try second.must("open", "h", mount.path + "/document.log", "O_WRONLY|O_APPEND")
                try other.must("rename", mount.path + "/document.log", old)
                try holder.must("close", "h")
                try second.must("write", "h", ", finished")
                try Self.settle(mount.below + "/document.log.old")
                try other.must("unlink", old)
                try Self.close(second, in: mount)
                let entry = try #require(try mount.kept("document.log.old").first)
                #expect(try mount.text(ofKept: entry.id) == "begun, finished")
                checkForcedSteps(try mount.status())
            }
        }

        /// Waits until the clock is later than the file's last change, so that the next change of the file gets a later time.
        private static func settle(_ path: String) throws {
            try eventually(within: .seconds(10), "the last change of \(path) to be past") {
                var status = stat()
                var now = timespec()
                guard stat(path, &status) == 0, clock_gettime(CLOCK_REALTIME, &now) == 0 else {
                    throw TestFailure("\(path) cannot be looked at: errno \(errno)")
                }
                let changed = status.st_mtim
                return (now.tv_sec - changed.tv_sec) * 1_000_000_000 + now.tv_nsec - changed.tv_nsec
                    > 100_000_000
            }
        }

        /// Closes a file and ends the daemon, which first does all work for the close. Then mounts the directory with a new
        /// daemon.
        private static func close(_ actor: ScriptedProcess, in mount: MountedDirectory) throws {
            try actor.must("close", "h")
            try mount.unmount()
            try mount.mount()
        }

        @Test(
            "A renamed helper file to which no program wrote after the rename is not preserved when it is replaced",
            arguments: helpers)
        func aRenamedHelperFileWithoutWritesIsNotPreserved(helper: String) throws {
            try Self.with(PreservationTests.impatient, helper) { mount, holder in
                let (document, other) = (mount.path + "/document", try ScriptedProcess())
                try Program("touch").run("--date=1 hour ago", mount.path + "/" + helper)
                try holder.must("rename", mount.path + "/" + helper, document)
                try other.must("rename", mount.path + "/new", document)
                try holder.must("close", "h")
                try eventually(within: .seconds(10), "the version of an unwritten file to be dropped") {
                    try mount.kept().isEmpty
                }
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A program that opens the document waits for the writer of the renamed helper file",
            arguments: helpers, ["rename", "exchange", "link"])
        func anOpenWaitsForTheRenamedFilesWriter(helper: String, call: String) throws {
            // A log to which a second name is added is still a log.
            if (helper, call) == ("document.log", "link") { return }
            try Self.with("wait=60s,hold=60s,idle=60s", helper) { mount, holder in
                let (document, other) = (mount.path + "/document", try ScriptedProcess())
                if call == "link" { try other.must("unlink", document) }
                try holder.must(call, mount.path + "/" + helper, document)
                try holder.must("write", "h", ", continued")
                try other.tell(["read", document])
                try mount.waitUntilParked(other.pid)
                try holder.must("write", "h", ", finished")
                try holder.must("close", "h")
                #expect(try other.answer() == "ok begun, continued, finished")
                checkForcedSteps(try mount.status())
            }
        }

        @Test("An idle writer of a renamed helper file delays no other program", arguments: helpers)
        func anIdleWriterOfARenamedFileDelaysNoProgram(helper: String) throws {
            try Self.with("wait=60s,hold=60s,idle=60s", helper) { mount, holder in
                let document = mount.path + "/document"
                try Program("touch").run("--date=1 hour ago", mount.path + "/" + helper)
                try holder.must("rename", mount.path + "/" + helper, document)
                let (text, took) = try timed { try ScriptedProcess().must("read", document) }
                print("reading took \(took)")
                #expect(text == "begun")
                #expect(took < .seconds(10))
                try holder.must("close", "h")
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        @Test("If a log is renamed and then removed, the later writes of each of its writers are preserved")
        func theWritesOfSeveralWritersOfARenamedLogArePreserved() throws {
            try Self.with(PreservationTests.impatient, "document.log") { mount, holder in
                let (second, other, old) = (
                    try ScriptedProcess(), try ScriptedProcess(), mount.path + "/document.log.old"
                )
                try second.must("open", "h", mount.path + "/document.log", "O_WRONLY|O_APPEND")
                try other.must("rename", mount.path + "/document.log", old)
                try other.must("unlink", old)
                try holder.must("close", "h")
                try second.must("write", "h", ", finished")
                try second.must("close", "h")
                let entry = try #require(try mount.kept("document.log.old").first)
                #expect(try mount.text(ofKept: entry.id) == "begun, finished")
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A directory's presenter gets the writes to a log that came before the log's rename")
        func aDirectoryPresenterGetsTheWritesToALogBeforeTheLogsRename() throws {
            try Self.with(PreservationTests.impatient, "document.log") { mount, holder in
                let presenter = try TruceCommand.start("present", mount.path, "--json")
                try eventually(within: .seconds(10), "'truce present' to register") {
                    presenter.errorText.contains("presenting")
                }
                try holder.must("write", "h", ", continued")
                try ScriptedProcess().must("rename", mount.path + "/document.log", mount.path + "/other")
                try eventually(within: .seconds(10), "the change and the move to be told") {
                    presenter.text.contains("subitemDidChange") && presenter.text.contains("subitemDidMove")
                }
                try holder.must("close", "h")
                try presenter.end()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A log whose rename was interrupted is still a log: a later writer does not wait")
        func aLogWhoseRenameWasInterruptedIsStillALog() throws {
            try Self.with("wait=60s,hold=60s,idle=60s,hold-aware=60s", "document.log") { mount, holder in
                let (log, document) = (mount.path + "/document.log", mount.path + "/document")
                let writer = try Script("exec \"$1\" write \"$2\" -- bash -c \"$3\"").start(
                    try Lab.variable("TRUCE_BINARY"), document, "echo held; read line", input: .keyboard)
                try eventually(within: .seconds(10), "the command to run") { writer.text == "held\n" }
                let mover = try Program("mv").start(log, document)
                try mount.waitUntilParked(mover.pid)
                mover.send(SIGINT)
                _ = try mover.wait(within: .seconds(10))
                try holder.must("write", "h", ", continued")
                let (_, took) = try timed { try ScriptedProcess().must("put", log, "anew") }
                print("writing the log anew took \(took)")
                #expect(took < .seconds(10))
                try writer.type("\n")
                try writer.wait(within: .seconds(10)).requireSuccess()
                checkForcedSteps(try mount.status())
            }
        }

        @Test("A program that saves does not wait for its own helper file whose opening thread has ended")
        func aSaverDoesNotWaitForItsHelperFileWhoseOpeningThreadEnded() throws {
            try MountedDirectory.with("wait=60s,hold=60s,idle=60s") { mount in
                let (_, took) = try timed {
                    try Program("python3").run("-c", Self.handingOn, mount.path, within: .seconds(20))
                }
                print("saving took \(took)")
                #expect(try FileContents.text(of: mount.path + "/document") == "begun, continued, more")
                try mount.checkVersions(are: [])
                checkForcedSteps(try mount.status())
            }
        }

        private static let handingOn = """
            import os, sys, threading
            os.chdir(sys.argv[1])
            files = []
            def begin():
                files.append(os.open(".#document", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
                os.write(files[0], b"begun")
            thread = threading.Thread(target=begin)
            thread.start()
            thread.join()
            os.rename(".#document", "document")
            os.write(files[0], b", continued")
            file = os.open("document", os.O_WRONLY | os.O_APPEND)
            os.write(file, b", more")
            """

        /// Makes a document, a file that may replace it, and a helper file. The holder has the helper file open and has begun
        /// to write it.
        private static func with(
            _ bounds: String, _ helper: String, _ body: (MountedDirectory, ScriptedProcess) throws -> Void
        ) throws {
            let prepare = { (source: String) in
                for name in ["document", "new"] {
                    try FileContents.write(name == "new" ? name : "old", to: source + "/" + name)
                }
            }
            try MountedDirectory.with(bounds, prepare: prepare) { mount in
                let holder = try ScriptedProcess()
                try holder.must("open", "h", mount.path + "/" + helper, "O_WRONLY|O_CREAT|O_EXCL|O_APPEND")
                try holder.must("write", "h", "begun")
                try body(mount, holder)
            }
        }
    }
}
