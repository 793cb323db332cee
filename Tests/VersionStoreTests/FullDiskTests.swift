// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Testing
import VersionStore

/// A link needs no room on the disk, but its line in the log does. The tests set a limit on file sizes, so that the log cannot
/// grow. This limit applies to a whole process, so each test runs in its own process.
@Suite("Preserving while the store's log has no room")
struct FullDiskTests {
    private func prepared() throws -> Sandbox {
        let sandbox = try Sandbox()
        try sandbox.prepare()
        for name in ["a", "b"] { try sandbox.write("old", to: name) }
        return sandbox
    }

    @Test("a link is preserved without room for its log line, which is written with the next line")
    func aLinkIsPreservedAndLoggedLater() async throws {
        let sandbox = try prepared()
        let path = sandbox.path
        await #expect(processExitsWith: .success) { [path = path as String] in
            try SizeLimitedProcess(path).keepWithoutRoom()
        }
        let listed = try sandbox.store().list(under: [])
        #expect(listed.map(\.path) == [bytes("a"), bytes("b")])
        #expect(listed.map(\.method) == [.link, .link])
        #expect(sandbox.log == [])
    }

    @Test("a missing log line is written when the store ends")
    func aMissingLogLineIsWrittenWhenTheStoreEnds() async throws {
        let sandbox = try prepared()
        let path = sandbox.path
        await #expect(processExitsWith: .success) { [path = path as String] in
            try SizeLimitedProcess(path).settleAtTheEnd()
        }
        #expect(try sandbox.store().list(under: bytes("a")).count == 1)
        #expect(sandbox.log == [])
    }

    @Test("a link without a log line is dropped, and no line about it is written")
    func aLinkWithoutALogLineIsDroppedWithoutALogLineAboutTheDrop() async throws {
        let sandbox = try prepared()
        let path = sandbox.path
        await #expect(processExitsWith: .success) { [path = path as String] in
            try SizeLimitedProcess(path).dropWithoutRoom()
        }
        #expect(try sandbox.kept() == [])
        #expect(try sandbox.text(of: ".truce/store/kept.log") == "")
    }

    @Test("a copy without a log line is not renewed or reused")
    func aCopyWithoutALogLineIsNotRenewed() async throws {
        let sandbox = try prepared()
        let path = sandbox.path
        await #expect(processExitsWith: .success) { [path = path as String] in
            try SizeLimitedProcess(path).recordWithoutRoom()
        }
        #expect(try sandbox.store().list(under: bytes("a")).count == 2)
    }

    @Test("a copy without room for its log line fails and leaves no file")
    func aCopyWithoutRoomLeavesNoFile() async throws {
        let sandbox = try prepared()
        let path = sandbox.path
        await #expect(processExitsWith: .success) { [path = path as String] in
            try SizeLimitedProcess(path).copyWithoutRoom()
        }
        #expect(try sandbox.kept() == [])
        #expect(try sandbox.store().list(under: []) == [])
    }

    @Test("a store with a file that lacks its log line opens, even without room for the line")
    func aStoreOpensWithoutRoomForAMissingLogLine() async throws {
        let sandbox = try prepared()
        #expect(link("\(sandbox.path)/a", "\(sandbox.path)/.truce/store/kept/00000000000a0000") == 0)
        let path = sandbox.path
        await #expect(processExitsWith: .success) { [path = path as String] in
            try SizeLimitedProcess(path).openWithoutRoom()
        }
        #expect(try sandbox.store().list(under: []).map(\.cause) == [.recovered])
        #expect(sandbox.log.count == 1)
    }
}

/// The steps of a process that may make no file larger than a copy of the document.
private struct SizeLimitedProcess {
    struct Wrong: Error { let line: UInt }

    private let path: String

    init(_ path: String) throws {
        self.path = path
        signal(SIGXFSZ, SIG_IGN)
        try setRoom(3)
    }

    private func setRoom(_ bytes: rlim_t) throws {
        var limit = rlimit()
        let kind = __rlimit_resource_t(RLIMIT_FSIZE.rawValue)
        guard getrlimit(kind, &limit) == 0 else { throw Errno.last }
        limit.rlim_cur = min(bytes, limit.rlim_max)
        guard setrlimit(kind, &limit) == 0 else { throw Errno.last }
    }

    private func store() throws -> VersionStore {
        try VersionStore(in: try OwnedDescriptor.openPath(path), log: { _ in })
    }

    private func file(_ name: String) -> OwnedDescriptor {
        OwnedDescriptor(adopting: open("\(path)/\(name)", O_RDONLY | O_CLOEXEC))
    }

    private func keep(_ name: String, in store: VersionStore) throws -> VersionID {
        try store.preserveByLinking(file(name), path: bytes(name), cause: .claim)
    }

    private func check(_ holds: Bool, _ line: UInt = #line) throws {
        if !holds { throw Wrong(line: line) }
    }

    func keepWithoutRoom() throws {
        let store = try store()
        let id = try keep("a", in: store)
        try check(store.list(under: bytes("a")).map(\.id) == [id])
        try check(try contents(store, id) == "old")
        var log = stat()
        try check(stat("\(path)/.truce/store/kept.log", &log) == 0 && log.st_size == 0)
        try setRoom(.max)
        _ = try keep("b", in: store)
    }

    func settleAtTheEnd() throws {
        let store = try store()
        _ = try keep("a", in: store)
        try setRoom(.max)
        store.writePendingLines()
    }

    func dropWithoutRoom() throws {
        let store = try store()
        try store.drop(try keep("a", in: store), reason: "unchanged")
        try check(store.list(under: []).isEmpty)
        try setRoom(.max)
        store.writePendingLines()
    }

    func copyWithoutRoom() throws {
        let store = try store()
        do throws(StoreError) {
            _ = try store.preserveByCopying(file("a"), path: bytes("a"), cause: .claim)
        } catch {
            return try check(error == .io(Errno(rawValue: EFBIG)))
        }
        try check(false)
    }

    func recordWithoutRoom() throws {
        let store = try store()
        try setRoom(.max)
        let copy = try store.copyWithoutSync(file("a"))
        try setRoom(3)
        let id = try store.record(copy, path: bytes("a"), cause: .claim)
        try check(!store.renewIfRecent(id))
        var failure: StoreError?
        do throws(StoreError) {
            _ = try store.preserveByCopying(file("a"), path: bytes("a"), cause: .claim)
        } catch {
            failure = error
        }
        try check(failure == .io(Errno(rawValue: EFBIG)))
        try setRoom(.max)
        try check(store.preserveByCopying(file("a"), path: bytes("a"), cause: .claim) != id)
    }

    func openWithoutRoom() throws {
        let store = try store()
        try check(store.list(under: []).map(\.cause) == [.recovered])
    }
}
