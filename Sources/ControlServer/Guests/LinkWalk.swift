// SPDX-License-Identifier: Apache-2.0
package import CoordinationEngine
package import LinuxSystem

// Where links lead.
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

/// Follows links in any part of a path, as the kernel would if the mount were the whole world.
///
/// Each name is looked up in the directory it has come to, so a path takes as many looks as it has names; after `..`
/// that directory is walked to anew, for another process may have moved it. Others wait for the walk, so the sum of
/// all looks of an access is bounded.
private struct LinkWalk: ~Copyable {
    /// As many links as the kernel follows.
    private static let longestChain = 40

    /// The way from the root that was come to, free of links as far as anything is there.
    private(set) var names: [NameBytes] = []
    private let tree: SourceTree
    /// The directory come to; nil if it is missing, or has to be walked to.
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
        // The next name is the last.
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

    /// Above the root is somebody else's world.
    private mutating func leave() throws(Errno) {
        guard names.popLast() != nil else { throw .crossDevice }
        depart()
    }

    private mutating func depart() {
        directory = nil
        isMissing = false
    }

    /// Goes on to a name, unless it is a link: then returns what that says.
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

    /// Takes the directory come to, walking there if need be; nil if it is missing.
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
    /// What a link in this directory says; nil for what is none.
    fileprivate borrowing func link(at name: NameBytes) throws(Errno) -> [UInt8]? {
        let item = try name.withName { (name) throws(Errno) in try path(of: name) }
        return try item.status().isSymbolicLink ? try item.linkTarget() : nil
    }
}
