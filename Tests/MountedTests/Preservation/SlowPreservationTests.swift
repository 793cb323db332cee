// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension MountTests {
    /// Checks claims that wait while contents take long to be preserved.
    @Suite struct SlowPreservationTests {
        @Test("A writer that waits for a preservation does not count as idle")
        func aWriterThatWaitsForAPreservationIsNotIdle() throws {
            try Self.stage("wait=60s,hold=10s,idle=1s") { stage in
                try stage.reader.tell("read", stage.document)
                try stage.mount.waitUntilParked(stage.reader.pid)
                // The reader `last` arrives after the writer. Both waits have the limit `wait`, and the writer still waits when
                // `last` has read.
                let last = try ScriptedProcess()
                #expect(try last.must("read", stage.another) == "old")
                #expect(!stage.writer.isDone)
                #expect(!stage.reader.isDone)
            } after: { stage in
                #expect(try stage.writer.answer() == "ok")
                try stage.writer.must("write", "w", "new")
                try stage.writer.must("close", "w")
                #expect(try stage.reader.answer() == "ok new")
            }
        }

        @Test("A program that waits for a preservation can be killed, and then delays no other program")
        func aProgramWaitingForPreservationCanBeKilled() throws {
            try Self.stage("wait=60s,hold=1s,idle=1s") { stage in
                kill(stage.writer.pid, SIGKILL)
                let took = try eventually(within: .seconds(11), "the end of the writer") {
                    stage.writer.program.hasEnded
                }
                print("a program that waited for preservation ended \(took) after SIGKILL (bound 1 s)")
            } after: { stage in
                let text = try stage.reader.must("read", stage.document)
                #expect(text == "old")
            }
        }

        private struct Stage {
            let mount: MountedDirectory
            /// The first of two files that the holder has open and has written. The holder's claim on this file is suspended,
            /// and the writer opens it.
            let document: String
            let another: String
            let holder: ScriptedProcess
            let writer: ScriptedProcess
            let reader: ScriptedProcess

            init(_ mount: MountedDirectory) throws {
                self.mount = mount
                (document, another) = (mount.path + "/document", mount.path + "/another")
                (holder, writer, reader) = (
                    try ScriptedProcess(), try ScriptedProcess(), try ScriptedProcess()
                )
                for (handle, path) in [("h", document), ("k", another)] {
                    try holder.must("open", handle, path, "O_WRONLY|O_CREAT|O_APPEND")
                    try holder.must("write", handle, "old")
                }
                #expect(try reader.must("read", document) == "old")
            }
        }

        /// Freezes the file system, so that no contents can be preserved. The writer then waits until the holder's contents are
        /// preserved.
        private static func stage(
            _ bounds: String, whileFrozen: (Stage) throws -> Void, after: (Stage) throws -> Void
        ) throws {
            guard geteuid() == 0 else { return print("only root freezes file systems: shown by root's run") }
            try LoopFilesystem.with([bounds]) { mount in
                let stage = try Stage(mount)
                try Program("fsfreeze").run("--freeze", mount.path + "/..")
                do {
                    let granted = try mount.status().counters.granted
                    try stage.writer.tell("open", "w", stage.document, "O_WRONLY|O_TRUNC")
                    // The writer's claim is granted when the holder's `hold` has run out.
                    try eventually(within: .seconds(20), "the writer's turn to come") {
                        try mount.status().counters.granted == granted + 1
                    }
                    try whileFrozen(stage)
                } catch {
                    try Program("fsfreeze").run("--unfreeze", mount.path + "/..")
                    throw error
                }
                try Program("fsfreeze").run("--unfreeze", mount.path + "/..")
                try after(stage)
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }
    }
}
