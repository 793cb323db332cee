// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import LinuxSystem
import Testing
import VersionStore

@Suite("Removal of a new store after a failed mount")
struct StoreRemovalTests {
    private func exists(_ name: String, in sandbox: Sandbox) -> Bool {
        access("\(sandbox.path)/\(name)", F_OK) == 0
    }

    @Test("a store that the opening made is removed, and an earlier store stays")
    func aNewStoreIsRemovedAndAnEarlierStoreStays() throws {
        let sandbox = try Sandbox()
        let made = try sandbox.store()
        #expect(exists(".truce/store/kept.log", in: sandbox))
        made.discardIfNew(in: try sandbox.root())
        #expect(!exists(".truce", in: sandbox))

        try sandbox.prepare()
        try sandbox.store().discardIfNew(in: try sandbox.root())
        #expect(exists(".truce/store/kept.log", in: sandbox))
        #expect(sandbox.log == [])
    }

    @Test("a new store that already has versions is not removed, and the log says so")
    func aStoreWithVersionsIsNotRemoved() throws {
        let sandbox = try Sandbox()
        try sandbox.write("old", to: "a")
        let store = try sandbox.store()
        let id = try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        store.discardIfNew(in: try sandbox.root())
        #expect(try contents(store, id) == "old")
        #expect(store.list(under: []).map(\.id) == [id])
        #expect(sandbox.log.count == 1)
    }

    @Test("an open store has no file open for writing, so that its file system can become read-only")
    func anOpenStoreHasNoFileOpenForWriting() throws {
        let sandbox = try Sandbox()
        try sandbox.write("old", to: "a")
        let store = try sandbox.store()
        _ = try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        #expect(try openForWriting(below: sandbox.path).isEmpty)
        // While this handle is open, `openForWriting` must return one file. This shows that the function finds such files.
        let handle = try #require(FileHandle(forWritingAtPath: "\(sandbox.path)/a"))
        #expect(try openForWriting(below: sandbox.path).count == 1)
        try handle.close()
        #expect(store.list(under: []).count == 1)
    }

    /// Returns the files below the directory that this process has open for writing.
    private func openForWriting(below directory: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { number in
            var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
            guard readlink("/proc/self/fd/\(number)", &buffer, buffer.count - 1) > 0,
                let descriptor = Int32(number)
            else { return nil }
            let path = String(
                decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let flags = fcntl(descriptor, F_GETFL)
            return path.hasPrefix(directory) && flags >= 0 && flags & O_ACCMODE != O_RDONLY ? path : nil
        }
    }
}
