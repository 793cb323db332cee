// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Testing
import VersionStore

@Suite("A version that is a link to a file with other names")
struct LinkedFileTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        try sandbox.write("contents", to: "a")
    }

    private func overwrite(_ name: String) throws {
        let file = try #require(FileHandle(forWritingAtPath: "\(sandbox.path)/\(name)"))
        try file.write(contentsOf: Data("CONT".utf8))
        try file.close()
    }

    @Test(
        "is replaced by a copy when the store is opened, so that writes to the file do not change the version"
    )
    func aLinkToANamedFileIsReplacedAtTheOpening() throws {
        let id = try sandbox.store().preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        // The daemon ends before the step that would have taken the name away.
        let store = try sandbox.store()
        try overwrite("a")
        #expect(try contents(store, id) == "contents")
        #expect(try sandbox.status(".truce/store/kept/\(id)").linkCount == 1)
        #expect(sandbox.log == [])
    }

    @Test("is replaced by a copy even if the log has no line for the version")
    func aLinkWithoutALineIsReplacedAtTheOpening() throws {
        let id = try sandbox.store().preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        try sandbox.write("", to: ".truce/store/kept.log")
        let store = try sandbox.store()
        try overwrite("a")
        #expect(try contents(store, id) == "contents")
        #expect(sandbox.log == ["kept/\(id) had no line in kept.log and gets one"])
    }

    @Test(
        "stays a link if the file has no other name, so that the version gets what a surviving writer writes")
    func aLinkToAFileWithoutNamesStays() throws {
        let id = try sandbox.store().preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        let writer = try #require(FileHandle(forWritingAtPath: "\(sandbox.path)/a"))
        try FileManager.default.removeItem(atPath: "\(sandbox.path)/a")
        let store = try sandbox.store()
        try writer.write(contentsOf: Data("CONT".utf8))
        try writer.close()
        #expect(try contents(store, id) == "CONTents")
    }

    @Test("stays a link if all its other names are versions")
    func aFileWithSeveralNamesInTheStoreStays() throws {
        let store = try sandbox.store()
        let ids = try ["a", "b"].map {
            try store.preserveByCopying(try sandbox.file("a"), path: bytes($0), cause: .claim)
        }
        let before = try ids.map { try sandbox.status(".truce/store/kept/\($0)").inode }
        #expect(before[0] == before[1])
        _ = consume store
        // Without lines, it is not known how the versions came into the store.
        try sandbox.write("", to: ".truce/store/kept.log")
        _ = try sandbox.store()
        #expect(try ids.map { try sandbox.status(".truce/store/kept/\($0)").inode } == before)
    }

    @Test(
        "stays a link if it is too large for a copy, and the log says that the version changes with the file")
    func aLinkThatCannotBeCopiedIsReported() throws {
        // A file system that shares blocks would copy the file all the same.
        let id = try sandbox.store().preserveByLinking(try sandbox.file("a"), path: bytes("a"), cause: .claim)
        let store = try sandbox.store(largestCopy: 4)
        let isCopied = try sandbox.status(".truce/store/kept/\(id)").linkCount == 1
        #expect(isCopied || sandbox.log.contains { $0.contains("changes when programs write to its file") })
        #expect(try contents(store, id) == "contents")
    }
}
