// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Testing
import VersionStore

@Suite("Preserving and listing versions")
struct StoredVersionTests {
    @Test("preserving by a link leaves the replaced inode in the store, with its contents and rights")
    func linkingPreservesTheReplacedInode() throws {
        let sandbox = try Sandbox()
        let store = try sandbox.store()
        try sandbox.write("old", to: "report.txt")
        #expect(chmod("\(sandbox.path)/report.txt", 0o640) == 0)
        let before = try sandbox.status("report.txt")
        let id = try store.preserveByLinking(
            try sandbox.file("report.txt"), path: bytes("report.txt"), cause: .claim)
        try sandbox.write("new", to: "next")
        #expect(rename("\(sandbox.path)/next", "\(sandbox.path)/report.txt") == 0)
        #expect(try contents(store, id) == "old")
        let entry = try store.entry(id)
        #expect(entry.method == .link)
        #expect(entry.inode == before.inode && entry.device == before.device && entry.size == 3)
        #expect(entry.rights.mode & 0o777 == 0o640 && entry.rights.user == before.user)
        #expect(entry.cause == .claim && entry.path == bytes("report.txt"))
        #expect(try sandbox.status(".truce/store/kept/\(id)").inode == before.inode)
    }

    @Test(
        "preserving by a copy keeps the contents before a truncation, in a file that only the owner may read")
    func copyingPreservesContentsBeforeATruncation() throws {
        let sandbox = try Sandbox()
        let store = try sandbox.store()
        try sandbox.write("old", to: "report.txt")
        #expect(chmod("\(sandbox.path)/report.txt", 0o644) == 0)
        let id = try store.preserveByCopying(
            try sandbox.file("report.txt"), path: bytes("report.txt"), cause: .suspendedWriter)
        #expect(truncate("\(sandbox.path)/report.txt", 0) == 0)
        #expect(try contents(store, id) == "old")
        #expect(try store.entry(id).rights.mode & 0o777 == 0o644)
        #expect(try [.copy, .reflink].contains(store.entry(id).method))
        let copy = try sandbox.status(".truce/store/kept/\(id)")
        #expect(copy.mode & 0o777 == 0o600 && copy.user == geteuid())
        #expect(try sandbox.kept() == [id.description])
    }

    /// `/dev/shm` is another file system. So the copy shares no block with the file, and its contents are copied by `sendfile`.
    @Test(
        "a file on another file system is copied up to the size limit, and refused above it",
        arguments: [10, 11])
    func aFileIsCopiedUpToTheSizeLimit(size: Int) throws {
        let sandbox = try Sandbox()
        let store = try sandbox.store(largestCopy: 10)
        let name = "/dev/shm/truce-store-\(getpid())-\(size)"
        #expect(FileManager.default.createFile(atPath: name, contents: Data(count: size)))
        defer { unlink(name) }
        let file = OwnedDescriptor(adopting: open(name, O_RDWR | O_CLOEXEC))
        if size <= 10 {
            let id = try store.preserveByCopying(file, path: [], cause: .claim)
            #expect(try store.entry(id).method == .copy)
            var found = try store.find(id)
            #expect(try store.open(&found).status().size == size)
        } else {
            #expect(throws: StoreError.tooLarge(limit: 10)) {
                try store.preserveByCopying(file, path: [], cause: .claim)
            }
            #expect(try sandbox.kept() == [])
            #expect(store.list(under: []) == [])
        }
    }

    @Test(
        "only regular files are preserved: a directory, link or pipe is refused",
        arguments: ["folder", "link", "pipe"])
    func onlyRegularFilesArePreserved(name: String) throws {
        let sandbox = try Sandbox()
        let store = try sandbox.store()
        switch name {
        case "folder": try sandbox.makeDirectory(name)
        case "link": #expect(symlink("/etc/hostname", "\(sandbox.path)/\(name)") == 0)
        default: #expect(mkfifo("\(sandbox.path)/\(name)", 0o600) == 0)
        }
        #expect(throws: StoreError.notAFile) {
            try store.preserveByLinking(try sandbox.file(name), path: bytes(name), cause: .claim)
        }
        #expect(throws: StoreError.notAFile) {
            try store.preserveByCopying(try sandbox.file(name), path: bytes(name), cause: .claim)
        }
    }

    @Test("a path that is not UTF-8 is stored and listed byte for byte")
    func aPathThatIsNotUTF8IsStoredAsBytes() throws {
        let sandbox = try Sandbox()
        let store = try sandbox.store()
        try sandbox.write("old", to: "a")
        let path: [UInt8] = [0xFF, 0x0A, 0x22, 0xFE]
        let id = try store.preserveByLinking(try sandbox.file("a"), path: path, cause: .claim)
        #expect(store.list(under: path).map(\.id) == [id])
        #expect(try sandbox.text(of: ".truce/store/kept.log").split(separator: "\n").count == 1)
    }

    @Test(
        "the versions of a path include versions of paths below it, but not of a longer name that begins with it"
    )
    func aListingContainsVersionsBelowThePath() throws {
        let sandbox = try Sandbox()
        let store = try sandbox.store()
        try sandbox.write("old", to: "a")
        let ids = try ["a", "a/b", "ab", "c"].map {
            try store.preserveByLinking(try sandbox.file("a"), path: bytes($0), cause: .claim)
        }
        #expect(store.list(under: bytes("a")).map(\.id) == Array(ids[0...1]))
        #expect(store.list(under: []).map(\.id) == ids)
        #expect(throws: StoreError.noSuchEntry) {
            try store.entry(try #require(VersionID("0123456789abcdef")))
        }
    }

    @Test("a copy without fsync can be recorded or discarded, and is recovered after a kill")
    func aCopyWithoutSyncIsRecordedOrRecovered() throws {
        let sandbox = try Sandbox()
        try sandbox.write("first", to: "a")
        try fill(sandbox)
        let entries = try sandbox.store().list(under: [])
        #expect(entries.map(\.cause) == [.claim, .recovered])
        #expect(entries.map(\.path) == [bytes("a"), []])
        #expect(try contents(sandbox.store(), try #require(entries.last).id) == "second")
    }

    /// Does what a daemon does until it is killed in the middle of its work.
    private func fill(_ sandbox: Sandbox) throws {
        let store = try sandbox.store()
        store.discard(try store.copyWithoutSync(try sandbox.file("a")))
        #expect(try sandbox.kept() == [])
        let former = try store.preserveByCopying(try sandbox.file("a"), path: bytes("b"), cause: .claim)
        let copy = try store.copyWithoutSync(try sandbox.file("a"))
        let isSame = store.isSame(copy, as: former)
        #expect(isSame)
        try sandbox.write("first and more", to: "a")
        let longer = try store.copyWithoutSync(try sandbox.file("a"))
        let isLonger = !store.isSame(longer, as: former)
        #expect(isLonger)
        store.discard(longer)
        try store.drop(former, reason: "the test is done with it")
        let isKnown = store.isSame(copy, as: former)
        #expect(!isKnown)
        try sandbox.write("second", to: "a")
        #expect(store.list(under: []) == [])
        let id = try store.record(copy, path: bytes("a"), cause: .claim)
        #expect(try contents(store, id) == "first")
        let entry = try #require(store.list(under: bytes("a")).first)
        #expect(entry.id == id && entry.size == 5 && entry.method != .link)
        _ = try store.copyWithoutSync(try sandbox.file("a"))
        #expect(try sandbox.kept().count == 2)
    }

    @Test("the store recognizes its own files and linked documents, and not copied documents")
    func theStoreRecognizesItsFiles() throws {
        let sandbox = try Sandbox()
        let store = try sandbox.store()
        for name in ["copied", "linked", "other"] { try sandbox.write(name, to: name) }
        let copy = try store.preserveByCopying(
            try sandbox.file("copied"), path: bytes("copied"), cause: .claim)
        _ = try store.preserveByLinking(try sandbox.file("linked"), path: bytes("linked"), cause: .claim)
        #expect(try store.holds(sandbox.status("linked")))
        #expect(try store.holds(sandbox.status(".truce/store/kept/\(copy)")))
        #expect(try !store.holds(sandbox.status("copied")))
        #expect(try !store.holds(sandbox.status("other")))
    }

    @Test("a dropped link is removed from the store, and its document stays")
    func aDroppedLinkLeavesTheDocument() throws {
        let sandbox = try Sandbox()
        let store = try sandbox.store()
        try sandbox.write("old", to: "a")
        let id = try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .suspendedWriter)
        try store.drop(id, reason: "unchanged")
        #expect(try sandbox.kept() == [])
        #expect(store.list(under: []) == [])
        #expect(throws: StoreError.noSuchEntry) { _ = try store.find(id) }
        #expect(try sandbox.text(of: ".truce/store/kept.log").contains("unchanged"))
        #expect(try sandbox.text(of: "a") == "old")
    }

    @Test(
        "a log line contains the time as UTC text and as nanoseconds",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (2_999_999, "1970-01-01T00:00:00.002Z"),
            (1_795_221_300_923_456_789, "2026-11-21T00:35:00.923Z"),
            (1_709_251_199_999_999_999, "2024-02-29T23:59:59.999Z"),
        ])
    func aLogLineContainsTheTimeInUTC(nanoseconds: Int64, text: String) throws {
        let sandbox = try Sandbox()
        let store = try sandbox.store(clock: { nanoseconds })
        try sandbox.write("old", to: "a")
        let id = try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        #expect(try sandbox.text(of: ".truce/store/kept.log").contains("\"time\":\"\(text)\""))
        #expect(try store.entry(id).time == nanoseconds)
    }

    @Test(
        "if several threads preserve contents at the same time, each version has a unique ID and a complete log line"
    )
    func concurrentVersionsHaveUniqueIDs() async throws {
        let sandbox = try Sandbox()
        let store = try sandbox.store(clock: { 1_000_000_000_000_000_000 })
        try sandbox.write("old", to: "a")
        let ids = try await withThrowingTaskGroup(of: [VersionID].self) { group in
            for _ in 0..<4 {
                group.addTask {
                    try (0..<25).map { _ in
                        try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
                    }
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(Set(ids).count == 100)
        #expect(store.list(under: []).map(\.id) == ids.sorted())
        #expect(try sandbox.text(of: ".truce/store/kept.log").split(separator: "\n").count == 100)
    }

    @Test("a source that cannot be written has no store, and preserving fails with the reason")
    func aReadOnlySourceHasNoStore() throws {
        let root = try OwnedDescriptor.openPath("/sys")
        let store = try VersionStore(in: root, log: { _ in })
        let absence = try #require(store.absence)
        #expect([.readOnly, .noRight].contains(absence))
        let sandbox = try Sandbox()
        try sandbox.write("old", to: "a")
        #expect(throws: absence) {
            try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        }
        #expect(store.list(under: []) == [])
    }
}
