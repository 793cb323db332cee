// SPDX-License-Identifier: Apache-2.0
package import CoordinationEngine
package import LinuxSystem

// Follows symbolic links below the root of the source.
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

/// Follows the symbolic links in all parts of a path as the kernel does, but never out of the mount.
///
/// Each name is looked up in the directory that the walk has reached. After `..`, that directory is opened again from the root,
/// because another process can have moved it. The number of lookups is limited, because other requests wait for them.
private struct LinkWalk: ~Copyable {
    /// The most links that are followed in one path, as in the kernel.
    private static let longestChain = 40

    /// The path that the walk has reached, from the root. It contains no symbolic links, except after a missing directory.
    private(set) var names: [NameBytes] = []
    private let tree: SourceTree
    /// The directory that the walk has reached. Nil if it does not exist, or if it must be opened again from the root.
    private var directory: OwnedDescriptor?
    private var isMissing = false
    private var links = 0
    /// The number of lookups that are still allowed.
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
        // The names that the walk still has to look up, in reverse order.
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

    /// Goes to the directory that contains this directory. Throws at the root, because that directory would be outside the
    /// mount.
    private mutating func leave() throws(Errno) {
        guard names.popLast() != nil else { throw .crossDevice }
        depart()
    }

    private mutating func depart() {
        directory = nil
        isMissing = false
    }

    /// Goes to the item with this name. If the item is a symbolic link, stays in the directory and returns the link's target.
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

    /// Returns the directory that the walk has reached; opens it again if necessary. Returns nil if the directory does not
    /// exist.
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
    /// The target of a symbolic link in this directory; nil if the item with this name is not a symbolic link.
    fileprivate borrowing func link(at name: NameBytes) throws(Errno) -> [UInt8]? {
        let item = try name.withName { (name) throws(Errno) in try path(of: name) }
        return try item.status().isSymbolicLink ? try item.linkTarget() : nil
    }
}
