// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

/// Guarantees, "Contents are preserved before they are lost", for two programs that have one file open or use two of its names.
extension MountTests {
    @Suite struct ConcurrentWriterTests {
        @Test("The contents that a writer leaves beside a suspended writer are preserved")
        func contentsWrittenBesideASuspendedWriterArePreserved() throws {
            let left = "left by another"
            try PreservationTests.keeps(
                [PreservationTests.old, left], as: "suspended-writer", PreservationTests.yielding,
                forced: [.suspended]
            ) { stage in
                try stage.other.must("put", stage.document, left)
                // The grant of this read preserves the contents that the writer left.
                #expect(try ScriptedProcess().must("read", stage.document) == left)
                try stage.holder.must("write", "h", "over it")
                #expect(stage.below() != left)
            }
        }

        @Test("The contents that a writer leaves after it preempted another writer are preserved")
        func contentsWrittenOverAPreemptedWriterArePreserved() throws {
            let left = "left by another"
            try PreservationTests.keeps(
                [PreservationTests.old, left], as: "suspended-writer", PreservationTests.impatient,
                forced: [.proceeded]
            ) { stage in
                try stage.other.must("open", "o", stage.document, "O_WRONLY|O_TRUNC")
                try stage.other.must("write", "o", left)
                try stage.other.must("close", "o")
                // The daemon handles the close after close(2) has returned, so the test waits.
                try eventually(within: .seconds(10), "what was left to be kept") {
                    try stage.mount.counters.kept == 2
                }
                try stage.holder.must("write", "h", "over it")
                #expect(stage.below() != left)
            }
        }

        @Test("Of repeated appends beside a suspended writer, the last copy is preserved (D125)")
        func ofRepeatedAppendsBesideASuspendedWriterTheLastCopyIsPreserved() throws {
            let prepare = { (source: String) in try FileContents.write("old", to: source + "/document") }
            try MountedDirectory.with(PreservationTests.yielding, prepare: prepare) { mount in
                let (document, one, two) = (
                    mount.path + "/document", try ScriptedProcess(), try ScriptedProcess()
                )
                try one.must("open", "h", document, "O_WRONLY")
                try one.must("write", "h", "one")
                var former: [String: String] = [:]
                for text in [" two", " three", " four"] {
                    try two.must("open", "h", document, "O_WRONLY|O_APPEND")
                    try two.must("write", "h", text)
                    try two.must("close", "h")
                    try eventually(within: .seconds(10), "one copy that ends in '\(text)'") {
                        let kept = try mount.kept("document")
                        for (id, _) in kept { former[id] = try mount.text(ofKept: id) }
                        return kept.count == 1 && kept.allSatisfy { former[$0.0]?.hasSuffix(text) ?? false }
                    }
                }
                #expect(Set(former.values).contains("one two three"), "\(former)")
                // The id of each former version still leads to the contents that the version had.
                for (id, text) in former { #expect(try mount.text(ofKept: id) == text) }
                try two.must("open", "h", document, "O_WRONLY|O_TRUNC")
                try two.must("write", "h", "new")
                try two.must("close", "h")
                try one.must("write", "h", " end")
                try one.must("close", "h")
                let texts = try mount.kept("document").map { id, _ in try mount.text(ofKept: id) }
                #expect(texts.contains("one two three four"), "\(texts)")
                #expect(try FileContents.text(of: document) == "new end")
                checkForcedSteps(try mount.status(), except: [.suspended])
            }
        }

        @Test(
            "A suspended writer's truncation preserves another writer's contents, even if a reader suspended that writer"
        )
        func aSuspendedWritersTruncationPreservesTheContents() throws {
            let other = "written by another"
            try PreservationTests.keeps(
                [PreservationTests.old, other], as: "claim", PreservationTests.yielding, forced: [.suspended]
            ) { stage in
                try stage.other.must("open", "o", stage.document, "O_WRONLY|O_TRUNC")
                try stage.other.must("write", "o", other)
                #expect(try ScriptedProcess().must("read", stage.document) == other)
                try stage.holder.must("size", "h", "0")
                #expect(stage.below() == "")
            }
        }

        @Test(
            "A suspended writer's last writes are preserved before another writer truncates the file",
            arguments: [true, false])
        func aSuspendedWritersLastWritesArePreserved(closes: Bool) throws {
            let all = PreservationTests.old + ", all of it"
            let cause = closes ? "suspended-writer" : "claim"
            try PreservationTests.keeps(
                [PreservationTests.old, all], as: cause, PreservationTests.yielding, forced: [.suspended]
            ) {
                stage in
                try stage.other.must("open", "o", stage.document, "O_RDWR")
                try stage.holder.must("write", "h", ", all of it")
                if closes {
                    try stage.holder.must("close", "h")
                    try eventually(within: .seconds(10), "what was finished to be kept") {
                        try stage.mount.counters.kept == 2
                    }
                }
                try stage.other.must("size", "o", "0")
                #expect(stage.below() == "")
            }
        }

        @Test(
            "The contents of a writer are preserved although the writer resets the modification time, also after a new link"
        )
        func resetTimestampsDoNotPreventPreservation() throws {
            let prepare = { (source: String) in try FileContents.write("former", to: source + "/document") }
            try MountedDirectory.with(PreservationTests.impatient, prepare: prepare) { mount in
                let (document, holder, other) = (
                    mount.path + "/document", try ScriptedProcess(), try ScriptedProcess()
                )
                try holder.must("open", "h", document, "O_WRONLY")
                try holder.must("overwrite", "h", "latest")
                try other.must("link", document, document + ".too")
                try other.must("open", "o", document, "O_WRONLY|O_TRUNC")
                // The version is listed under the name that the daemon learnt last.
                let entry = try #require(try mount.kept().first)
                #expect(try mount.text(ofKept: entry.id) == "latest")
                checkForcedSteps(try mount.status(), except: [.proceeded])
            }
        }

        @Test(
            "Later writes to a replaced or removed database or log are preserved",
            arguments: ["app.db", "app.log"], ["unlink", "rename", "rotate"])
        func lateWritesToDatabasesAndLogsArePreserved(name: String, call: String) throws {
            let prepare = { (source: String) in try FileContents.write("", to: source + "/new") }
            try MountedDirectory.with(PreservationTests.impatient, prepare: prepare) { mount in
                let document = mount.path + "/" + name
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                try holder.must("put", document, "begun")
                try holder.must("open", "h", document, "O_WRONLY|O_APPEND")
                let (_, took) = try timed {
                    switch call {
                    case "unlink": try other.must("unlink", document)
                    case "rename": try other.must("rename", mount.path + "/new", document)
                    default:
                        try other.must("rename", document, document + ".1")
                        try other.must("unlink", document + ".1")
                    }
                }
                print("\(call) of \(name) took \(took)")
                try holder.must("write", "h", ", finished")
                try holder.must("close", "h")
                let entry = try #require(try mount.kept(name + (call == "rotate" ? ".1" : "")).first)
                let restored = try Lab.freshDirectory("restored") + "/" + name
                try mount.restore(entry.id, to: restored)
                #expect(try FileContents.text(of: restored) == "begun, finished")
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A removed log without later writes is not preserved, and neither is a log that keeps another name"
        )
        func aRemovedLogWithoutLaterWritesIsNotPreserved() throws {
            try MountedDirectory.with(PreservationTests.impatient) { mount in
                let document = mount.path + "/app.log"
                let (holder, other) = (try ScriptedProcess(), try ScriptedProcess())
                try holder.must("open", "h", document, "O_WRONLY|O_CREAT|O_APPEND")
                try holder.must("write", "h", "begun")
                try Program("touch").run("--date=1 hour ago", document)
                try other.must("link", document, mount.path + "/snapshot.log")
                try other.must("unlink", mount.path + "/snapshot.log")
                try mount.checkVersions(are: [])
                try other.must("unlink", document)
                #expect(try mount.kept().count == 1)
                try holder.must("close", "h")
                try eventually(within: .seconds(10), "the version of an unwritten file to be dropped") {
                    try mount.kept().isEmpty
                }
                checkForcedSteps(try mount.status())
            }
        }

        @Test(
            "A replaced file of a silent presenter is preserved, but not later writes by the file's other name"
        )
        func aReplacedFileOfASilentPresenterIsPreserved() throws {
            let options = "relinquish=300ms,save=300ms,deletion=300ms"
            let prepare = { (source: String) in try FileContents.write("promised", to: source + "/notes.md") }
            try MountedDirectory.with(options, prepare: prepare) { mount in
                let (document, writer) = (mount.path + "/notes.md", try ScriptedProcess())
                try writer.must("link", document, mount.path + "/notes.md~")
                try writer.must("put", mount.path + "/next", "next")
                let presenter = try PresenterTests.present(mount)
                presenter.send(SIGSTOP)
                defer { presenter.send(SIGKILL) }
                try writer.must("rename", mount.path + "/next", document)
                try writer.must("put", mount.path + "/notes.md~", "other")
                let restored = try Lab.freshDirectory("restored") + "/notes.md"
                try mount.restore(try #require(try mount.kept("notes.md").first?.id), to: restored)
                #expect(try FileContents.text(of: restored) == "promised")
                let names = try Program("stat").run("--format=%h", mount.path + "/notes.md~").text
                #expect(names == "1\n", "what is kept is no name of the file")
                checkForcedSteps(try mount.status(), except: [.forfeited])
            }
        }
    }
}
