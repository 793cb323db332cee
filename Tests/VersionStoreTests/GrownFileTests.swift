// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Testing
import VersionStore

@Suite("Copies of files that only grow (D125)")
struct GrownFileTests {
    private let sandbox: Sandbox
    private let store: VersionStore

    init() throws {
        sandbox = try Sandbox()
        store = try sandbox.store()
        try sandbox.write("one", to: "log")
    }

    /// Preserves a growing file. Returns the new version, and the earlier copies that the store then did not need any more.
    private func keep(
        _ name: String = "log", as path: String = "log"
    ) throws -> (id: VersionID, gone: [VersionID]) {
        let id = try store.preserveGrown(try sandbox.file(name), path: bytes(path), cause: .suspendedWriter)
        return (id, store.letGoOfGrown())
    }

    @Test("the last copy of a growing file replaces the former copies, whose contents are still readable")
    func theLastCopyReplacesFormerCopies() throws {
        // The third text is longer than a page. The store compares contents one page at a time.
        let texts = ["", " two", String(repeating: " three", count: 100_000), " four"]
        var kept: [(id: VersionID, text: String)] = []
        for text in texts {
            try sandbox.append(text, to: "log")
            let (id, gone) = try keep()
            #expect(gone == kept.suffix(1).map(\.id))
            kept.append((id, try sandbox.text(of: "log")))
            #expect(try sandbox.kept() == [id.description])
            #expect(store.list(under: []).map(\.id) == [id])
        }
        for (id, text) in kept {
            #expect(try contents(store, id) == text)
            #expect(try store.entry(id).size == text.utf8.count)
        }
        for (former, later) in zip(kept, kept.dropFirst()) {
            #expect(
                try sandbox.text(of: ".truce/store/kept.log").contains(
                    "\"cause\":\"kept/\(later.id) begins with all of it\",\"event\":\"dropped\","
                        + "\"heldBy\":\"\(later.id)\",\"id\":\"\(former.id)\""))
        }
        #expect(sandbox.log == [])
    }

    @Test("a replaced copy is read from the later copy, up to the replaced copy's former end")
    func aReplacedCopyIsReadUpToItsFormerEnd() throws {
        let first = try keep().id
        try sandbox.append(" and two", to: "log")
        #expect(try keep().gone == [first])
        let found = try store.find(first)
        #expect(found.end == 3)
        for (offset, count) in [(0, 3), (1, 2), (2, 1), (3, 0), (4, 0), (Int.max, 0)] {
            #expect(found.count(100, from: offset) == count)
        }
        #expect(found.count(2, from: 0) == 2)
    }

    @Test("a version that was found is readable after its copy was replaced twice")
    func aFoundVersionIsReadableAfterTwoReplacements() throws {
        let first = try keep().id
        var found = try store.find(first)
        for text in [" and two", " and three"] {
            try sandbox.append(text, to: "log")
            #expect(try keep().gone.count == 1)
        }
        let file = try store.open(&found)
        let count = found.count(100, from: 0)
        #expect(String(decoding: try file.read(at: 0, count: count), as: UTF8.self) == "one")
    }

    @Test(
        "a copy stays if the new contents do not begin with the contents of the copy",
        arguments: ["onf and more", "on", "", "One", "more one"])
    func aGrowingFilesCopyStaysIfTheNewContentsDoNotBeginWithIt(now: String) throws {
        let first = try keep().id
        try sandbox.write(now, to: "log")
        let (second, gone) = try keep()
        #expect(gone == [])
        #expect(store.list(under: []).map(\.id) == [first, second])
        #expect(try contents(store, first) == "one" && contents(store, second) == now)
    }

    @Test("a difference in the last byte of a large copy is found")
    func aDifferenceInTheLastByteIsFound() throws {
        let size = 3 << 18
        try sandbox.write(String(repeating: "a", count: size), to: "log")
        let first = try keep().id
        try sandbox.write(String(repeating: "a", count: size - 1) + "bc", to: "log")
        #expect(try keep().gone == [])
        #expect(try contents(store, first).utf8.count == size)
    }

    @Test("a copy with another path or other rights than the new copy stays")
    func aCopyWithAnotherPathOrRightsThanTheNewCopyStays() throws {
        let first = try keep().id
        let (second, none) = try keep(as: "renamed")
        #expect(none == [])
        #expect(chmod("\(sandbox.path)/log", 0o600) == 0)
        let (third, noneEither) = try keep(as: "renamed")
        #expect(noneEither == [])
        let plain = try store.preserveByCopying(
            try sandbox.file("log"), path: bytes("renamed"), cause: .claim)
        let (fourth, gone) = try keep(as: "renamed")
        #expect(gone == [third])
        #expect(store.list(under: []).map(\.id) == [first, second, plain, fourth])
    }

    @Test("after another program removed a copy, its version and the versions that it replaced are not found")
    func aRemovedCopyIsNotFound() throws {
        let first = try keep().id
        try FileManager.default.removeItem(atPath: "\(sandbox.path)/.truce/store/kept/\(first)")
        let (second, none) = try keep()
        #expect(none == [])
        let (third, gone) = try keep()
        #expect(gone == [second])
        try FileManager.default.removeItem(atPath: "\(sandbox.path)/.truce/store/kept/\(third)")
        for id in [first, second, third] {
            #expect(throws: StoreError.noSuchEntry) { _ = try contents(store, id) }
        }
        #expect(sandbox.log == [])
    }

    @Test("after a kill between a replacement's log line and removal, opening the store removes the file")
    func aKillDuringAReplacementIsRepaired() throws {
        let first = try keep().id
        let name = "\(sandbox.path)/.truce/store/kept/\(first)"
        #expect(link(name, "\(sandbox.path)/as it was") == 0)
        try sandbox.append(" two", to: "log")
        let (second, gone) = try keep()
        #expect(gone == [first])
        #expect(rename("\(sandbox.path)/as it was", name) == 0)
        // The first store is in use, so the test copies its directory and opens the copy.
        let other = try Sandbox()
        try FileManager.default.copyItem(
            atPath: "\(sandbox.path)/.truce", toPath: "\(other.path)/.truce")
        let reopened = try other.store()
        #expect(try other.kept() == [second.description])
        #expect(try contents(reopened, first) == "one" && contents(reopened, second) == "one two")
        #expect(other.log == [])
    }

    @Test("above 256 growing files, the oldest is forgotten, and its copies are not replaced")
    func only256GrowingFilesAreRemembered() throws {
        let first = try keep().id
        for number in 0..<256 {
            let name = "log \(number)"
            try sandbox.write("one", to: name)
            #expect(try keep(name, as: name).gone == [])
        }
        let (last, gone) = try keep("log 255", as: "log 255")
        #expect(gone.count == 1)
        let (second, none) = try keep()
        #expect(none == [])
        #expect(try keep().gone == [second])
        #expect(store.list(under: bytes("log")).map(\.id).first == first)
        #expect(store.list(under: []).map(\.id).contains(last))
        #expect(store.list(under: []).count == 258)
    }

    @Test(
        "if threads preserve a growing file at the same time, one copy is left and every version is readable")
    func severalThreadsPreserveAGrowingFileTogether() async throws {
        let ids = try await withThrowingTaskGroup(of: [VersionID].self) { group in
            for _ in 0..<4 {
                group.addTask { try (0..<25).map { _ in try keep().id } }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(Set(ids).count == 100)
        #expect(store.letGoOfGrown() == [])
        for id in ids { #expect(try contents(store, id) == "one") }
        // All versions have the same contents. So one copy, the last, is enough.
        #expect(try sandbox.kept() == [ids.max()?.description])
    }
}
