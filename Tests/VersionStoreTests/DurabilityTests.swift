// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Synchronization
import Testing
import VersionStore

/// When `preserve` returns, the version is on the disk. The tests assume that a power cut loses all changes of a file or
/// directory since its last fsync(2).
@Suite("A preserved version survives a power cut")
struct DurabilityTests {
    /// A stand-in for the disk. For each inode it remembers which contents the last fsync(2) has written.
    private final class Disk: Sendable {
        private let texts = Mutex<[UInt64: String]>([:])
        private let path: String

        init(_ path: String) { self.path = path }

        func synchronize(_ file: borrowing OwnedDescriptor) throws(Errno) {
            let status = try file.status()
            let text: String
            do {
                text =
                    status.isDirectory
                    ? try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd/\(file.rawValue)")
                        .joined(separator: "\n")
                    : String(
                        decoding: try Data(contentsOf: URL(filePath: "/proc/self/fd/\(file.rawValue)")),
                        as: UTF8.self)
            } catch {
                text = "unreadable: \(error)"
            }
            texts.withLock { $0[status.inode] = text }
            try file.synchronize()
        }

        subscript(inode: UInt64) -> String? { texts.withLock { $0[inode] } }
        func forget() { texts.withLock { $0 = [:] } }
    }

    private let sandbox: Sandbox
    private let disk: Disk
    private let store: VersionStore

    init() throws {
        let sandbox = try Sandbox()
        let disk = Disk(sandbox.path)
        store = try VersionStore(
            in: try sandbox.root(),
            synchronisingBy: { file throws(Errno) in try disk.synchronize(file) }, log: { _ in })
        (self.sandbox, self.disk) = (sandbox, disk)
        try sandbox.write("contents", to: "a")
        disk.forget()
    }

    private func inode(_ name: String) throws -> UInt64 { try sandbox.status(".truce/store/" + name).inode }

    /// Checks that the contents, the name and the log line of a version are on the disk.
    private func check(_ id: VersionID, isLinked: Bool = false) throws {
        if !isLinked { #expect(try disk[inode("kept/\(id)")] == "contents") }
        let names = try disk[inode("kept")]?.split(separator: "\n").map(String.init) ?? []
        #expect(names.contains(id.description))
        #expect(try disk[inode("kept.log")]?.contains("\"event\":\"kept\",\"group\"") == true)
        #expect(try disk[inode("kept.log")]?.contains(id.description) == true)
    }

    @Test("a copy's contents, name and log line are on the disk when it is preserved")
    func aCopysContentsNameAndLogLineAreSynced() throws {
        let id = try store.preserveByCopying(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        try check(id)
        disk.forget()
        // The second version is a second name of the first version's file.
        try check(try store.preserveByCopying(try sandbox.file("a"), path: bytes("b"), cause: .claim))
    }

    @Test("the contents, name and log line of a growing file's copy are on the disk when it is preserved")
    func aGrownFilesCopyIsSynced() throws {
        try check(try store.preserveGrown(try sandbox.file("a"), path: bytes("a"), cause: .claim))
    }

    @Test("a link's name and log line are on the disk when it is preserved")
    func aLinksNameAndLogLineAreSynced() throws {
        try check(
            try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim),
            isLinked: true)
    }

    @Test("a copy that was made without fsync is on the disk when it is recorded as a version")
    func aCopyWithoutSyncIsSyncedWhenRecorded() throws {
        let copy = try store.copyWithoutSync(try sandbox.file("a"))
        #expect(try disk[inode("kept")] == nil)
        try check(try store.record(copy, path: bytes("a"), cause: .claim))
    }

    @Test("the contents and name of a copy that replaces a link are on the disk")
    func aCopyThatReplacesALinkIsSynced() throws {
        let id = try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        disk.forget()
        try store.detach(id)
        #expect(try disk[inode("kept/\(id)")] == "contents")
        #expect(try disk[inode("kept")]?.contains(id.description) == true)
    }

    @Test("the log line about a dropped version is on the disk before the file is removed")
    func theLogLineAboutADroppedVersionIsOnTheDiskBeforeItsFileIsRemoved() throws {
        let id = try store.preserveByCopying(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        for ids in [
            [id], [try store.preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)],
        ] {
            disk.forget()
            if ids == [id] {
                try store.drop(id, reason: "unchanged")
            } else {
                store.dropVersions(of: ids, reason: "unchanged")
            }
            #expect(try disk[inode("kept.log")]?.contains("unchanged") == true)
            #expect(try disk[inode("kept")]?.contains(ids[0].description) == false)
        }
    }
}
