// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import CoordinationEngine
import Foundation
import LinuxSystem
import Testing

/// Checks how the server resolves symbolic links of the source directory for clients of the socket.
@Suite("Symbolic links in the source")
final class SourceTreeTests {
    private let root: URL
    private let tree: SourceTree

    init() throws {
        root = FileManager.default.temporaryDirectory.appending(path: "truce-links-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: root.appending(path: "a/b/c"), withIntermediateDirectories: true)
        try Data().write(to: root.appending(path: "a/b/c/file"))
        tree = SourceTree(try OwnedDescriptor.openPath(root.path), mountedAt: "/mnt/folder")
    }

    deinit { try? FileManager.default.removeItem(at: root) }

    private func link(_ name: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(
            atPath: root.appending(path: name).path, withDestinationPath: target)
    }

    private func target(of path: String) throws(LookupFailure) -> String? {
        var lookups = ProtocolLimits.linkLookups
        return try target(of: path, within: &lookups)
    }

    private func target(of path: String, within lookups: inout Int) throws(LookupFailure) -> String? {
        try tree.target(of: Array(path.utf8), as: nil, within: &lookups)
            .map { String(decoding: $0, as: UTF8.self) }
    }

    private func isLoop(_ path: String) -> Bool {
        do {
            _ = try target(of: path)
            return false
        } catch {
            // In this test, only a loop of links makes the source throw a system error.
            return if case .system = error { true } else { false }
        }
    }

    @Test("symbolic links in a path and in the targets of links are followed as the kernel follows them")
    func symbolicLinksAreFollowedAsTheKernelFollowsThem() throws {
        try link("to-c", to: "a/b/c")
        try link("to-file", to: "to-c/../c/./file")
        try link("a/b/up", to: "../../to-file")
        try link("whole", to: "/mnt/folder/a/b/up")
        for (path, expected) in [
            ("to-c", "a/b/c"), ("to-file", "a/b/c/file"), ("a/b/up", "a/b/c/file"), ("whole", "a/b/c/file"),
        ] {
            #expect(try target(of: path) == expected)
            let real = realpath(root.appending(path: expected).path, nil)
            defer { free(real) }
            #expect(real.map { String(cString: $0).hasSuffix("/" + expected) } == true)
        }
        #expect(try target(of: "a/b/c/file") == nil)
        #expect(try target(of: "a/b/nothing") == nil)
    }

    @Test("a symbolic link to a missing file leads to the path where the file would be")
    func aDanglingLinkLeadsToTheMissingFilesPath() throws {
        try link("new", to: "a/b/new/x/../y")
        #expect(try target(of: "new") == "a/b/new/y")
        try link("back", to: "nowhere/../to-b/new")
        try link("to-b", to: "a/b")
        #expect(try target(of: "back") == "a/b/new")
    }

    @Test("a symbolic link that leads out of the mount, or to itself, is refused")
    func symbolicLinksThatLeadOutOfTheMountAreRefused() throws {
        try link("out", to: "../secret")
        try link("elsewhere", to: "/etc/passwd")
        try link("circle", to: "circle")
        try link("through", to: "a/b/c/file/x")
        #expect(throws: LookupFailure.denied) { try target(of: "out") }
        #expect(throws: LookupFailure.denied) { try target(of: "elsewhere") }
        #expect(isLoop("circle"))
        #expect(throws: LookupFailure.notFound) { try target(of: "through") }
    }

    @Test("a symbolic link that needs too many look-ups is refused")
    func aPathWithTooManyLookupsIsRefused() throws {
        let depth = String(repeating: "d/", count: 900)
        try FileManager.default.createDirectory(
            at: root.appending(path: depth), withIntermediateDirectories: true)
        try link("long", to: depth + "x")
        #expect(try target(of: "long") == depth + "x")
        try link("winding", to: depth + String(repeating: "x/../", count: 20) + "x")
        #expect(try target(of: "winding") == depth + "x")
        try link("endless", to: depth + String(repeating: "x/../", count: 400) + "x")
        #expect(isLoop("endless"))
        // All paths of an access share one limit of look-ups, so each link leaves fewer look-ups for the links after it.
        var (lookups, times) = (ProtocolLimits.linkLookups, 0)
        while (try? target(of: "winding", within: &lookups)) != nil, times < 1000 { times += 1 }
        #expect((1..<1000).contains(times) && lookups < 0)
    }
}
