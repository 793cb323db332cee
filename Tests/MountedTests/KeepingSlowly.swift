// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

extension Mounted {
    /// Contents that take long to be kept.
    @Suite struct KeepingSlowly {
        @Test("Who waits until what it would lose is kept is not taken for a writer that does nothing")
        func frozen() throws {
            guard geteuid() == 0 else { return print("only root freezes file systems: shown by root's run") }
            try LoopFilesystem.with(["wait=60s,hold=10s,idle=1s"]) { mount in
                let (document, another) = (mount.path + "/document", mount.path + "/another")
                let (holder, writer) = (try Actor(), try Actor())
                let (reader, last) = (try Actor(), try Actor())
                for (handle, path) in [("h", document), ("k", another)] {
                    try holder.must("open", handle, path, "O_WRONLY|O_CREAT|O_APPEND")
                    try holder.must("write", handle, "old")
                }
                #expect(try reader.must("read", document) == "old")
                try Self.whileFrozen(mount.path + "/..") {
                    let granted = try mount.status().counters.granted
                    try writer.tell("open", "w", document, "O_WRONLY|O_TRUNC")
                    // When the holder has had its `hold`.
                    try eventually(within: .seconds(20), "the writer's turn to come") {
                        try mount.status().counters.granted == granted + 1
                    }
                    try reader.tell("read", document)
                    try mount.waitUntilParked(reader.pid)
                    // It comes later, and its wait is as long.
                    #expect(try last.must("read", another) == "old")
                    #expect(!writer.isDone)
                    #expect(!reader.isDone)
                }
                #expect(try writer.answer() == "ok")
                try writer.must("write", "w", "new")
                try writer.must("close", "w")
                #expect(try reader.answer() == "ok new")
                checkForced(try mount.status(), except: [.suspended])
            }
        }

        @Test("Who waits until what it would lose is kept can be killed, and nobody waits for it then")
        func killed() throws {
            guard geteuid() == 0 else { return print("only root freezes file systems: shown by root's run") }
            try LoopFilesystem.with(["wait=60s,hold=1s,idle=1s"]) { mount in
                let document = mount.path + "/document"
                let (holder, writer, reader) = (try Actor(), try Actor(), try Actor())
                try holder.must("open", "h", document, "O_WRONLY|O_CREAT|O_APPEND")
                try holder.must("write", "h", "old")
                #expect(try reader.must("read", document) == "old")
                try Self.whileFrozen(mount.path + "/..") {
                    let granted = try mount.status().counters.granted
                    try writer.tell("open", "w", document, "O_WRONLY|O_TRUNC")
                    try eventually(within: .seconds(20), "the writer's turn to come") {
                        try mount.status().counters.granted == granted + 1
                    }
                    kill(writer.pid, SIGKILL)
                    let took = try eventually(within: .seconds(11), "the end of the writer") {
                        writer.program.hasEnded
                    }
                    print("who waited for something to be kept ended \(took) after SIGKILL (bound 1 s)")
                }
                #expect(try reader.must("read", document) == "old")
                checkForced(try mount.status(), except: [.suspended])
            }
        }

        private static func whileFrozen(_ path: String, _ body: () throws -> Void) throws {
            try Program("fsfreeze").run("--freeze", path)
            do {
                try body()
            } catch {
                try Program("fsfreeze").run("--unfreeze", path)
                throw error
            }
            try Program("fsfreeze").run("--unfreeze", path)
        }
    }
}
