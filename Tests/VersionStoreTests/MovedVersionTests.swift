// SPDX-License-Identifier: Apache-2.0
import Foundation
import LinuxSystem
import Testing
import VersionStore

@Suite("Versions follow their document")
struct MovedVersionTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        try sandbox.write("contents", to: "file")
    }

    private func keep(_ path: String, in store: VersionStore) throws -> VersionID {
        try store.preserveByCopying(try sandbox.file("file"), path: bytes(path), cause: .claim)
    }

    private func paths(_ store: VersionStore) -> [String] {
        store.list(under: []).map { String(decoding: $0.path, as: UTF8.self) }
    }

    @Test("versions follow a moved document, also over an opening of the store")
    func versionsFollowAMove() throws {
        do {
            let store = try sandbox.store()
            let id = try keep("d/a", in: store)
            _ = try keep("d/ab", in: store)
            store.noteMoved(from: bytes("d/a"), to: bytes("e/b"), isDirectory: false)
            let later = try keep("d/a", in: store)
            #expect(store.list(under: bytes("e/b")).map(\.id) == [id])
            #expect(store.list(under: bytes("d/a")).map(\.id) == [later])
            store.synchronizeDeferred()
        }
        #expect(try paths(sandbox.store()) == ["e/b", "d/ab", "d/a"])
    }

    @Test("versions below a moved directory follow it, and those beside it stay")
    func versionsFollowADirectory() throws {
        do {
            let store = try sandbox.store()
            for path in ["d", "d/a", "d/e/b", "dd/a", "x/d/a"] { _ = try keep(path, in: store) }
            store.noteMoved(from: bytes("d"), to: bytes("x/y"), isDirectory: true)
            store.noteMoved(from: bytes("x/y/e"), to: bytes("z"), isDirectory: true)
            #expect(paths(store) == ["x/y", "x/y/a", "z/b", "dd/a", "x/d/a"])
            store.synchronizeDeferred()
        }
        let store = try sandbox.store()
        #expect(paths(store) == ["x/y", "x/y/a", "z/b", "dd/a", "x/d/a"])
        #expect(store.list(under: bytes("x")).count == 3)
        #expect(store.list(under: bytes("d")).isEmpty)
    }

    @Test("two exchanged directories exchange their versions")
    func versionsAreExchanged() throws {
        do {
            let store = try sandbox.store()
            for path in ["d/a", "e/b", "e"] { _ = try keep(path, in: store) }
            store.noteExchanged(bytes("d"), bytes("e"))
            #expect(paths(store) == ["e/a", "d/b", "d"])
            store.synchronizeDeferred()
        }
        #expect(try paths(sandbox.store()) == ["e/a", "d/b", "d"])
    }

    @Test("a rewritten log has the present paths, also after many moves")
    func aRewrittenLogHasThePresentPaths() throws {
        let id: VersionID
        do {
            let store = try VersionStore(
                in: try sandbox.root(), log: { _ in }, compactingLogsOf: 20)
            id = try keep("a0", in: store)
            for step in 0..<100 {
                store.noteMoved(from: bytes("a\(step)"), to: bytes("a\(step + 1)"), isDirectory: false)
                store.synchronizeDeferred()
            }
            store.prune()
            let lines = try sandbox.text(of: ".truce/store/kept.log").split(separator: "\n")
            #expect(lines.count == 2)
            try keepAndDrop(in: store)
        }
        let store = try sandbox.store()
        #expect(store.record(of: id)?.path == bytes("a100"))
    }

    private func keepAndDrop(in store: VersionStore) throws {
        for _ in 0..<30 { try store.drop(try keep("other", in: store), reason: "the test is done with it") }
    }

    @Test("versions of a file are found by the file's number")
    func versionsAreFoundByTheFile() throws {
        let store = try sandbox.store()
        let id = try keep("a", in: store)
        let status = try sandbox.status("file")
        #expect(store.list(ofDevice: status.device, inode: status.inode).map(\.id) == [id])
        #expect(store.list(ofDevice: status.device, inode: status.inode + 1).isEmpty)
        try store.drop(id, reason: "the test is done with it")
        #expect(store.list(ofDevice: status.device, inode: status.inode).isEmpty)
    }

    @Test("the list of a document has the versions of its backup, but of no file in another directory")
    func backupsAreListed() throws {
        let store = try sandbox.store()
        let paths = ["d/a", "d/a~", "d/b", "a~", "d/e/a~"]
        let ids = try paths.map { try keep($0, in: store) }
        let listed = store.ids(under: bytes("d/a")) { $0.last == UInt8(ascii: "~") }
        #expect(listed == Array(ids[0...1]))
    }
}
