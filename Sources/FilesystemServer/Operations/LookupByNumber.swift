// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Finds files that the kernel has forgotten, by their numbers. A program or an NFS client may still have such a number
/// in a file handle (`name_to_handle_at(2)`).
///
/// A file outside the source is not found, and neither is a file of the store. If the kernel knows no name of a file,
/// the file is found unless it belongs to the store.
extension Lookup {
    /// The path to a file may change while the daemon walks down to the file. The walk is then repeated, at most this
    /// many times.
    private static let longestChase = 16

    /// Answers a lookup of `.` or `..` in a node. By `.` the kernel finds a node that it has forgotten, and by `..` the
    /// node's parent directory.
    func lookUpByNumber(_ id: NodeID, asksForParent: Bool, reply: consuming Reply) {
        // A worker does this. To find a directory, it may be necessary to read all directories above it, which takes
        // long.
        let parked = Parked(reply)
        engine.workers.run { [self] in
            guard let reply = parked.take() else { return }
            do throws(Errno) {
                let node = try lookUpByNumber(id)
                guard asksForParent else { return answer(node, reply: reply) }
                defer { nodes.forget(node.id, lookups: 1) }
                guard let parent = node.parent else { throw .stale }
                answer(try lookUpByNumber(parent.id), reply: reply)
            } catch {
                reply.fail(error)
            }
        }
    }

    private func answer(_ node: Node, reply: consuming Reply) {
        do throws(Errno) {
            let status = try node.descriptor().descriptor.status()
            answer(node, status, attributes: attributeReplies.validity(of: node, to: 0), reply: reply)
        } catch {
            nodes.forget(node.id, lookups: 1)
            reply.fail(error)
        }
    }

    /// Returns the node with a number, and counts a lookup of the node. Makes sure that the node can be reached even if
    /// the file is renamed.
    private func lookUpByNumber(_ id: NodeID) throws(Errno) -> Node {
        let node = try findNode(id)
        if node.isRoot || node.hasFileHandle { return node }
        do throws(Errno) {
            node.noteFileHandle(nodes.root.budget.fileHandle(of: try node.descriptor(), known: node.key))
            return node
        } catch {
            nodes.forget(node.id, lookups: 1)
            throw error
        }
    }

    private func findNode(_ id: NodeID) throws(Errno) -> Node {
        if let known = nodes[id], nodes.retain(known) { return known }
        guard let inode = NodeIDEncoding.inode(of: id.rawValue) else { throw .stale }
        let found = try nodes.root.budget.path(ofInode: inode)
        let status = try found.descriptor.status()
        // In the meantime, the file system below may have given the inode number to another file.
        guard submounts.isOfSource(status), nodes.number(of: status) == id else { throw .stale }
        for _ in 0..<Self.longestChase {
            switch try place(of: found, status) {
            case .outside: throw .stale
            case .names(let names): if let node = try descend(names, to: FileKey(status)) { return node }
            case .unknown: return try introduceNameless(found, status)
            }
        }
        throw .stale
    }

    private enum FoundPlace {
        case names([NameBytes])
        case outside
        case unknown
    }

    /// Returns the path in the source at which the kernel knows a file now.
    private func place(of found: SharedDescriptor, _ status: FileStatus) throws(Errno) -> FoundPlace {
        do throws(Errno) {
            // The kernel shows the path `/` for a file if it knows no name of the file.
            let isNameless = try found.descriptor.currentPath() == [UInt8(ascii: "/")]
            if isNameless, !status.isDirectory { return .unknown }
            if let names = try tree.names(of: found.descriptor), !names.isEmpty { return .names(names) }
        } catch {
            guard error.rawValue == ENAMETOOLONG, !status.isDirectory else { throw error }
            return .unknown
        }
        // The file has several names, and one of the others may be in the source.
        return status.linkCount > 1 && !status.isDirectory ? .unknown : .outside
    }

    /// Walks from the root down to a file. The nodes of the directories on the path are remembered as long as the
    /// file's node.
    ///
    /// Returns nil if the file is no longer at this path.
    private func descend(_ names: [NameBytes], to key: FileKey) throws(Errno) -> Node? {
        var above: [Node] = []
        defer { for directory in above { nodes.forget(directory.id, lookups: 1) } }
        do throws(Errno) {
            for (index, name) in names.enumerated() {
                let directory = above.last ?? nodes.root
                let isLast = index == names.count - 1
                let status = try directory.status(of: name)
                guard isLast ? FileKey(status) == key : status.isDirectory else { return nil }
                let node = nodes.introduce(
                    status, as: name, in: directory, isLocked: false, keeping: isLast ? above : [])
                above.append(node)
                // The file may have been renamed since its path was read.
                guard FileKey(try directory.status(of: name)) == node.key else { return nil }
                tree.correctName(of: node, to: name, in: directory, status)
            }
        } catch {
            guard error == .noEntry || error == .stale else { throw error }
            return nil
        }
        guard let node = above.popLast(), let name = names.last else { return nil }
        if !documents.awaitsNothing { identity.foundAwaited(node, as: name, in: above.last ?? nodes.root) }
        return node
    }

    private func introduceNameless(
        _ found: SharedDescriptor, _ status: FileStatus
    ) throws(Errno) -> Node {
        let handle = nodes.root.budget.fileHandle(of: found, known: FileKey(status))
        guard let handle, !status.isDirectory, !preserver.has(status) else { throw .stale }
        return nodes.introduce(nameless: status, by: handle)
    }
}
