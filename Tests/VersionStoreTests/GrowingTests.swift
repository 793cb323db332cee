// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Testing
import VersionStore

@Suite("Copies of files that are appended to (D125)")
struct GrowingTests {
    private let sandbox: Sandbox
    private let store: VersionStore

    init() throws {
        sandbox = try Sandbox()
        store = try sandbox.store()
        try sandbox.write("one", to: "log")
    }

    private func keep(as path: String = "log") throws -> (id: KeptID, replaced: KeptID?) {
        try store.keepGrown(try sandbox.file("log"), path: bytes(path), cause: .suspendedWriter)
    }

    @Test("the last copy stands for those it begins with, and the log says so")
    func grown() throws {
        let first = try keep()
        #expect(first.replaced == nil)
        // The longer one ends behind the page that is compared at once.
        for text in [" two", String(repeating: " three", count: 100_000)] {
            let former = try #require(try store.list(under: []).first)
            try sandbox.append(text, to: "log")
            let next = try keep()
            #expect(next.replaced == former.id)
            #expect(try sandbox.kept() == [next.id.description])
            #expect(try store.list(under: []).map(\.id) == [next.id])
            #expect(
                try sandbox.text(of: ".truce/kept.log").contains("kept/\(next.id) begins with all of it"))
        }
        let whole = try sandbox.text(of: "log")
        let last = try #require(try store.list(under: []).first)
        #expect(last.size == whole.utf8.count)
        #expect(try contents(store, last.id) == whole)
        #expect(sandbox.log == [])
    }

    @Test("a copy with any byte of its own stays", arguments: ["onf and more", "on", "", "One", "more one"])
    func changed(now: String) throws {
        let first = try keep().id
        try sandbox.write(now, to: "log")
        let second = try keep()
        #expect(second.replaced == nil)
        #expect(try store.list(under: []).map(\.id) == [first, second.id])
        #expect(try contents(store, first) == "one" && contents(store, second.id) == now)
    }

    @Test("a byte that differs far behind is seen")
    func changedFarBehind() throws {
        let size = 3 << 18
        try sandbox.write(String(repeating: "a", count: size), to: "log")
        let first = try keep().id
        try sandbox.write(String(repeating: "a", count: size - 1) + "bc", to: "log")
        #expect(try keep().replaced == nil)
        #expect(try contents(store, first).utf8.count == size)
    }

    @Test("neither of another name, nor for other readers, nor made for somebody who may do more")
    func others() throws {
        let first = try keep().id
        let second = try keep(as: "renamed")
        #expect(second.replaced == nil)
        #expect(chmod("\(sandbox.path)/log", 0o600) == 0)
        let third = try keep(as: "renamed")
        #expect(third.replaced == nil)
        let plain = try store.keepByCopying(
            try sandbox.file("log"), path: bytes("renamed"), cause: .claim)
        let fourth = try keep(as: "renamed")
        #expect(fourth.replaced == third.id)
        #expect(try store.list(under: []).map(\.id) == [first, second.id, plain, fourth.id])
    }

    @Test("what somebody has removed from the store is not missed")
    func removed() throws {
        let first = try keep().id
        try FileManager.default.removeItem(atPath: "\(sandbox.path)/.truce/kept/\(first)")
        #expect(try keep().replaced == nil)
        #expect(sandbox.log == [])
    }

    @Test("more files than are remembered")
    func many() throws {
        let first = try keep().id
        for number in 0..<300 {
            try sandbox.write("one", to: "log \(number)")
            let file = try sandbox.file("log \(number)")
            _ = try store.keepGrown(file, path: bytes("log \(number)"), cause: .claim)
        }
        let second = try keep().id
        #expect(try keep().replaced == second)
        #expect(try store.list(under: bytes("log")).map(\.id).first == first)
        #expect(try store.list(under: []).count == 302)
    }
}
