// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Glibc
import LinuxSystem

/// Files that the kernel asks for by a number it has forgotten, but somebody keeps: in a file handle
/// (`name_to_handle_at(2)`), or as an NFS client.
///
/// Whoever may open by handle may read everything. Still, what is known to lie outside the source is not found, nor is
/// anything in the daemon's own directory.
extension CoordinatedFilesystem {
    /// The kernel looks up `.` to know a node again, and `..` to learn in which directory it is.
    func recall(_ id: NodeID, asksForParent: Bool, reply: consuming Reply) {
        do throws(Errno) {
            let node = try recall(id)
            guard asksForParent else { return answer(node, reply: reply) }
            defer { nodes.forget(node.id, lookups: 1) }
            guard let parent = node.parent else { throw .stale }
            answer(try recall(parent.id), reply: reply)
        } catch {
            reply.fail(error)
        }
    }

    private func answer(_ node: Node, reply: consuming Reply) {
        do throws(Errno) {
            let status = try node.descriptor().descriptor.status()
            answer(node, status, attributes: validity(of: node, to: 0), reply: reply)
        } catch {
            nodes.forget(node.id, lookups: 1)
            reply.fail(error)
        }
    }

    /// Counts one more lookup of the node of a number.
    private func recall(_ id: NodeID) throws(Errno) -> Node {
        if let known = nodes[id], nodes.retain(known) { return known }
        guard let inode = NodeNumbering.inode(of: id.rawValue) else { throw .stale }
        let found = try nodes.root.budget.path(ofInode: inode)
        let status = try found.descriptor.status()
        guard status.inode == inode, mountsBelow.isOfSource(status) else { throw .stale }
        let node = try introduce(found, status)
        guard node.id == id else {
            // The inode number is another file's by now.
            nodes.forget(node.id, lookups: 1)
            throw .stale
        }
        return node
    }

    private func introduce(_ found: SharedDescriptor, _ status: FileStatus) throws(Errno) -> Node {
        if let names = try names(of: found, isDirectory: status.isDirectory),
            let node = try descend(names, to: FileKey(status))
        {
            return node
        }
        // A file of which the kernel below knows no name just now. A directory always has one.
        guard !status.isDirectory,
            let handle = nodes.root.budget.handle(of: found, known: FileKey(status))
        else { throw .stale }
        return nodes.introduce(nameless: status, by: handle)
    }

    /// The names from the root to a file; nil if they cannot be told.
    private func names(of found: SharedDescriptor, isDirectory: Bool) throws(Errno) -> [NameBytes]? {
        let slash = UInt8(ascii: "/")
        let path: [UInt8]
        do throws(Errno) {
            path = try found.descriptor.currentPath()
        } catch {
            guard error == Errno(rawValue: ENAMETOOLONG) else { throw error }
            return nil
        }
        let source = try nodes.root.descriptor().descriptor.currentPath()
        guard path != [slash] || isDirectory else { return nil }
        guard path.isPath(atOrBelow: source) else { throw .stale }
        let names = path.dropFirst(source == [slash] ? 0 : source.count).split(separator: slash)
        guard let first = names.first, Array(first) != Array(".truce".utf8) else { throw .stale }
        return names.map { NameBytes(Array($0)) }
    }

    /// Walks down to a file, and keeps the directories on the way known as long as it is.
    ///
    /// Nil if it is not there, or not any more.
    private func descend(_ names: [NameBytes], to key: FileKey) throws(Errno) -> Node? {
        var above: [Node] = []
        do throws(Errno) {
            for name in names.dropLast() {
                let directory = above.last ?? nodes.root
                let status = try directory.status(of: name)
                guard status.isDirectory else { throw .noEntry }
                above.append(nodes.introduce(status, as: name, in: directory, isLocked: false))
            }
            guard let name = names.last else { throw .noEntry }
            let directory = above.last ?? nodes.root
            let status = try directory.status(of: name)
            guard FileKey(status) == key else { throw .noEntry }
            let node = nodes.introduce(status, as: name, in: directory, isLocked: false)
            nodes.keep(above.map(\.id), above: node)
            return node
        } catch {
            for directory in above { nodes.forget(directory.id, lookups: 1) }
            guard error == .noEntry || error == .stale else { throw error }
            return nil
        }
    }
}
