// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import Foundation
import LinuxSystem
import Synchronization
import Testing
import VersionStore

@testable import truce

/// Protocol.md, `versions/list`: which preserved versions the server lists for a client.
@Suite("Versions in the replies to clients")
final class VersionStoreAccessTests {
    private let root: URL

    init() throws {
        root = FileManager.default.temporaryDirectory.appending(path: "truce-kept-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: root) }

    @Test("a version whose path cannot be looked up is not listed; other versions are listed")
    func aVersionWithAnUnreachablePathIsNotListed() throws {
        let directory = try OwnedDescriptor.openPath(root.path)
        let store = try VersionStore(in: directory, log: { _ in })
        try Data("kept".utf8).write(to: root.appending(path: "a"))
        // The kernel refuses to look up a name of 300 bytes.
        for path in [Array("a".utf8), [UInt8](repeating: UInt8(ascii: "x"), count: 300)] {
            let file = try NameBytes(Array("a".utf8)).withName { (name) throws(Errno) in
                try directory.path(of: name)
            }
            _ = try store.preserveByCopying(file, path: path, cause: .claim)
        }
        #expect(store.list(under: []).count == 2)
        let kept = PeerVersionStore(store, in: try OwnedDescriptor.openPath(root.path))
        let peer = Peer(
            PeerCredentials(pid: getpid(), user: geteuid(), group: getegid()), supplementaryGroups: [])
        #expect(try kept.entries(VersionQuery(path: []), for: peer).entries.map(\.path) == ["a"])
    }

    /// Three versions by three programs, each a second after the version before.
    private func someVersions() throws -> (PeerVersionStore, [VersionID], Peer) {
        let directory = try OwnedDescriptor.openPath(root.path)
        let clock = Mutex<Int64>(1_790_000_000_000_000_000)
        let store = try VersionStore(
            in: directory,
            clock: {
                clock.withLock { now in
                    now += 1_000_000_000
                    return now
                }
            }, log: { _ in })
        let actors = [
            VersionActor(program: "sed", run: "agent-1"), VersionActor(program: "vim", process: 7),
            VersionActor(program: "cat", run: "agent-2"),
        ]
        let ids = try actors.enumerated().map { number, actor in
            try Data("text \(number)".utf8).write(to: root.appending(path: "a"))
            let file = try NameBytes(Array("a".utf8)).withName { (name) throws(Errno) in
                try directory.path(of: name)
            }
            return try store.preserveByCopying(
                file,
                for: PreservationRequest(
                    path: Array("a".utf8), cause: .unseen, standing: .conflict,
                    provenance: Provenance(author: actor, saver: VersionActor(program: "dd"))))
        }
        let peer = Peer(
            PeerCredentials(pid: getpid(), user: geteuid(), group: getegid()), supplementaryGroups: [])
        return (PeerVersionStore(store, in: try OwnedDescriptor.openPath(root.path)), ids, peer)
    }

    @Test("a list is cut into pages, and has only versions of a program, of a run, or since a time")
    func listsAreFiltered() throws {
        let (store, ids, peer) = try someVersions()
        let texts = ids.map(\.description)
        let path = Array("a".utf8)
        func list(_ query: VersionQuery) throws -> [String] {
            try store.entries(query, for: peer).entries.map(\.id)
        }
        let first = try store.entries(VersionQuery(path: path, most: 2), for: peer)
        #expect(first.entries.map(\.id) == [texts[2], texts[1]])
        #expect(first.hasMore)
        let second = try store.entries(VersionQuery(path: path, before: texts[1], most: 2), for: peer)
        #expect(second.entries.map(\.id) == [texts[0]])
        #expect(!second.hasMore)
        #expect(try list(VersionQuery(path: [], by: "agent-2")) == [texts[2]])
        #expect(try list(VersionQuery(path: path, by: "vim")) == [texts[1]])
        #expect(try list(VersionQuery(path: path, by: "dd")).count == 3)
        #expect(try list(VersionQuery(path: path, by: "agent")).isEmpty)
        let time = try #require(first.entries.last?.time)
        #expect(try list(VersionQuery(path: path, since: time)) == [texts[2], texts[1]])
        #expect(try list(VersionQuery(path: path, since: 1e300)).isEmpty)
        let entry = try #require(first.entries.first)
        #expect(entry.author == VersionActorForm(program: "cat", run: "agent-2"))
        #expect(entry.standing == "conflict")
    }

    @Test("versions of another path are neither resolved nor removed, and a wrong ID leaves all as it was")
    func onlyVersionsOfThePathAreChanged() throws {
        let (store, ids, peer) = try someVersions()
        let texts = ids.map(\.description)
        let path = Array("a".utf8)
        #expect(throws: VersionAccessFailure.otherPath(path, than: Array("b".utf8))) {
            _ = try store.remove([texts[0]], of: Array("b".utf8), for: peer)
        }
        #expect(throws: VersionAccessFailure.notFound) {
            _ = try store.remove([texts[0], "0000000000000001"], of: path, for: peer)
        }
        #expect(try store.prune(path, until: nil, for: peer) == 0)
        #expect(try store.resolve([texts[0]], of: path, for: peer) == 1)
        #expect(try store.resolve(nil, of: path, for: peer) == 2)
        #expect(try store.prune(path, until: 0, for: peer) == 0)
        #expect(try store.remove([texts[0]], of: path, for: peer) == 1)
        #expect(try store.prune(path, until: nil, for: peer) == 2)
        #expect(try store.entries(VersionQuery(path: []), for: peer).entries.isEmpty)
    }
}
