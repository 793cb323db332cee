// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import Foundation
import LinuxSystem
import Testing
import VersionStore

@testable import truce

/// Protocol.md, `kept/list`: which preserved versions the server lists for a client.
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
        #expect(try kept.entries(under: [], for: peer).map(\.path) == ["a"])
    }
}
