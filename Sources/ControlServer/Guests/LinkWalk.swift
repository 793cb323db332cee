// SPDX-License-Identifier: Apache-2.0
package import CoordinationEngine
package import LinuxSystem

// Resolves symbolic links.
extension SourceTree {
    package func target(
        of path: [UInt8], as user: FileUser?, within lookups: inout Int
    ) throws(LookupFailure) -> [UInt8]? {
        do throws(Errno) {
            guard let user else { return try target(of: path, within: &lookups) }
            return try user.impersonate { () throws(Errno) in try target(of: path, within: &lookups) }
        } catch .crossDevice {
            throw .denied
        } catch {
            throw LookupFailure(error)
        }
    }

    private func target(of path: [UInt8], within lookups: inout Int) throws(Errno) -> [UInt8]? {
        let names = Self.names(in: path)
        guard let last = names.last else { return nil }
        try LinkWalk.take(names.count, of: &lookups)
        do throws(Errno) {
            let directory = try directory(names.dropLast())
            guard try directory.link(at: last) != nil else { return nil }
        } catch .noEntry {
            return nil
        }
        var walk = LinkWalk(in: self, within: lookups)
        defer { lookups = walk.lookups }
        try walk.follow(names)
        return Array(walk.names.map(\.bytes).joined(separator: [UInt8(ascii: "/")]))
    }
}

/// Follows links in any part of a path as the kernel does, but only inside the mount.
///
/// Each name takes a lookup in the directory reached so far. After `..` the walk starts again at the root, because another
/// process may have moved the directory. Other requests wait for the walk, so the lookups of an access are bounded.
private struct LinkWalk: ~Copyable {
    /// The limit of the kernel.
    private static let longestChain = 40

    /// The path reached from the root, without links as far as it exists.
    private(set) var names: [NameBytes] = []
    private let tree: SourceTree
    /// The directory reached; nil if it is missing or must be opened again from the root.
    private var directory: OwnedDescriptor?
    private var isMissing = false
    private var links = 0
    /// How many names may still be looked up.
    private(set) var lookups: Int

    init(in tree: SourceTree, within lookups: Int) {
        self.tree = tree
        self.lookups = lookups
    }

    static func take(_ count: Int, of lookups: inout Int) throws(Errno) {
        lookups -= count
        guard lookups >= 0 else { throw .linkLoop }
    }

    mutating func follow(_ path: [NameBytes]) throws(Errno) {
        // The next name is at the end.
        var rest = Array(path.reversed())
        while let name = rest.popLast() {
            switch name.bytes {
            case Array(".".utf8): continue
            case Array("..".utf8): try leave()
            default:
                guard let target = try enter(name) else { continue }
                rest += try begin(target).reversed()
            }
        }
    }

    /// Goes up a directory; above the root is outside the mount.
    private mutating func leave() throws(Errno) {
        guard names.popLast() != nil else { throw .crossDevice }
        depart()
    }

    private mutating func depart() {
        directory = nil
        isMissing = false
    }

    /// Goes on to a name. If it is a link, returns its target and stays.
    private mutating func enter(_ name: NameBytes) throws(Errno) -> [UInt8]? {
        try Self.take(1, of: &lookups)
        do throws(Errno) {
            if let above = try found() {
                let item = try name.withName { (name) throws(Errno) in try above.path(of: name) }
                if try item.status().isSymbolicLink {
                    directory = consume above
                    return try item.linkTarget()
                }
                directory = consume item
            }
        } catch .noEntry {
            isMissing = true
        }
        names.append(name)
        return nil
    }

    /// Takes the directory reached, opening it again if needed; nil if it is missing.
    private mutating func found() throws(Errno) -> OwnedDescriptor? {
        if let known = directory.take() { return known }
        if isMissing { return nil }
        try Self.take(names.count, of: &lookups)
        return try tree.directory(names)
    }

    private mutating func begin(_ target: [UInt8]) throws(Errno) -> [NameBytes] {
        links += 1
        guard links <= Self.longestChain else { throw .linkLoop }
        let next = SourceTree.names(in: target)
        guard target.first == UInt8(ascii: "/") else { return next }
        guard next.map(\.bytes).starts(with: tree.mountpoint) else { throw .crossDevice }
        names = []
        depart()
        return Array(next.dropFirst(tree.mountpoint.count))
    }
}

extension OwnedDescriptor {
    /// The target of a link in this directory; nil if the name is not a link.
    fileprivate borrowing func link(at name: NameBytes) throws(Errno) -> [UInt8]? {
        let item = try name.withName { (name) throws(Errno) in try path(of: name) }
        return try item.status().isSymbolicLink ? try item.linkTarget() : nil
    }
}
