// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Files that the kernel asks for by a number it has forgotten. A program holds that number in a file handle
/// (`name_to_handle_at(2)`), or an NFS client does.
///
/// Files that lie outside the source, or in the daemon's own directory, are not found. The kernel below may know no name of a
/// file; such a file is found, unless it belongs to the store.
extension Lookup {
    /// How often names may change during the walk to a file.
    private static let longestChase = 16

    /// The kernel looks up `.` to find a node again, and `..` to find its parent directory.
    func lookUpByNumber(_ id: NodeID, asksForParent: Bool, reply: consuming Reply) {
        // Finding a directory can require reading all directories above it.
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

    /// Counts a further lookup of the node with a number, and makes sure that it can be reached under any name.
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
        // The inode number may belong to another file now.
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

    /// The place of a file, by its present name in the kernel below.
    private func place(of found: SharedDescriptor, _ status: FileStatus) throws(Errno) -> FoundPlace {
        do throws(Errno) {
            // The kernel shows this path for a file without a known name.
            let isNameless = try found.descriptor.currentPath() == [UInt8(ascii: "/")]
            if isNameless, !status.isDirectory { return .unknown }
            if let names = try tree.names(of: found.descriptor), !names.isEmpty { return .names(names) }
        } catch {
            guard error.rawValue == ENAMETOOLONG, !status.isDirectory else { throw error }
            return .unknown
        }
        // Another of its names may be in the source.
        return status.linkCount > 1 && !status.isDirectory ? .unknown : .outside
    }

    /// Walks down to a file. The directories on the path stay known as long as the file is known.
    ///
    /// Returns nil if the file is not there any more.
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
                // A rename may have come between the lookup and this step.
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
