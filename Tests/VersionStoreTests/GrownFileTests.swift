// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Testing
import VersionStore

@Suite("Copies of files that are appended to (D125)")
struct GrownFileTests {
    private let sandbox: Sandbox
    private let store: VersionStore

    init() throws {
        sandbox = try Sandbox()
        store = try sandbox.store()
        try sandbox.write("one", to: "log")
    }

    /// Preserves the file, and returns the copies that were dropped for it.
    private func keep(
        _ name: String = "log", as path: String = "log"
    ) throws -> (id: VersionID, gone: [VersionID]) {
        let id = try store.preserveGrown(try sandbox.file(name), path: bytes(path), cause: .suspendedWriter)
        return (id, store.letGoOfGrown())
    }

    @Test("the last copy replaces copies that it begins with; they can be read under their IDs as before")
    func lastCopyHoldsFormer() throws {
        // The longer text ends behind the page that is compared at once.
        let texts = ["", " two", String(repeating: " three", count: 100_000), " four"]
        var kept: [(id: VersionID, text: String)] = []
        for text in texts {
            try sandbox.append(text, to: "log")
            let (id, gone) = try keep()
            #expect(gone == kept.suffix(1).map(\.id))
            kept.append((id, try sandbox.text(of: "log")))
            #expect(try sandbox.kept() == [id.description])
            #expect(try store.list(under: []).map(\.id) == [id])
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

    @Test("a part of a dropped copy ends where the copy ended")
    func droppedCopyEndsWhereItEnded() throws {
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

    @Test("a found version can be read though its copy is dropped twice before it is opened")
    func locationFollowsHolder() throws {
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

    @Test("a copy with any byte of its own stays", arguments: ["onf and more", "on", "", "One", "more one"])
    func differentCopyStays(now: String) throws {
        let first = try keep().id
        try sandbox.write(now, to: "log")
        let (second, gone) = try keep()
        #expect(gone == [])
        #expect(try store.list(under: []).map(\.id) == [first, second])
        #expect(try contents(store, first) == "one" && contents(store, second) == now)
    }

    @Test("a byte that differs far behind is noticed")
    func lateDifferenceIsSeen() throws {
        let size = 3 << 18
        try sandbox.write(String(repeating: "a", count: size), to: "log")
        let first = try keep().id
        try sandbox.write(String(repeating: "a", count: size - 1) + "bc", to: "log")
        #expect(try keep().gone == [])
        #expect(try contents(store, first).utf8.count == size)
    }

    @Test("copies with another name, other readers or wider rights stay")
    func otherNameOrRightsStays() throws {
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
        #expect(try store.list(under: []).map(\.id) == [first, second, plain, fourth])
    }

    @Test("a file that was removed from the store is no error, and its versions are not found")
    func removedHolderIsMissing() throws {
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

    @Test("killed between the line and the file: the next opening removes the file, and the ID is valid")
    func killBetweenLineAndFile() throws {
        let first = try keep().id
        let name = "\(sandbox.path)/.truce/store/kept/\(first)"
        #expect(link(name, "\(sandbox.path)/as it was") == 0)
        try sandbox.append(" two", to: "log")
        let (second, gone) = try keep()
        #expect(gone == [first])
        #expect(rename("\(sandbox.path)/as it was", name) == 0)
        // A store of its own: the other is in use.
        let other = try Sandbox()
        try FileManager.default.copyItem(
            atPath: "\(sandbox.path)/.truce", toPath: "\(other.path)/.truce")
        let reopened = try other.store()
        #expect(try other.kept() == [second.description])
        #expect(try contents(reopened, first) == "one" && contents(reopened, second) == "one two")
        #expect(other.log == [])
    }

    @Test("above the limit of remembered files only the oldest copy is forgotten")
    func rememberedFilesAreBounded256() throws {
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
        #expect(try store.list(under: bytes("log")).map(\.id).first == first)
        #expect(try store.list(under: []).map(\.id).contains(last))
        #expect(try store.list(under: []).count == 258)
    }

    @Test("threads preserve at once: one copy is left, and every ID can be read")
    func concurrentAppendedCopies() async throws {
        let ids = try await withThrowingTaskGroup(of: [VersionID].self) { group in
            for _ in 0..<4 {
                group.addTask { try (0..<25).map { _ in try keep().id } }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(Set(ids).count == 100)
        #expect(store.letGoOfGrown() == [])
        for id in ids { #expect(try contents(store, id) == "one") }
        // No contents differ, so the last copy holds those of all others.
        #expect(try sandbox.kept() == [ids.max()?.description])
    }
}
