// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Finds files that the kernel asks for by a number, after the kernel has forgotten the file. A program or an NFS client
/// holds such a number in a file handle (`name_to_handle_at(2)`).
///
/// Files outside the source or in the store are not found. The kernel may know no name of a file in the source. Such a
/// file is found, unless it belongs to the store.
extension Lookup {
    /// The most times that the walk to a file is repeated because names on its path have changed meanwhile.
    private static let longestChase = 16

    /// Answers a lookup of `.`, by which the kernel finds a node again, or of `..`, by which it finds the node's parent
    /// directory.
    func lookUpByNumber(_ id: NodeID, asksForParent: Bool, reply: consuming Reply) {
        // A worker does this, because the search for a directory may have to read all directories above it.
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

    /// Returns the node with a number, and counts a lookup of it. Makes sure that the node can be reached whatever its
    /// name becomes.
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
        // The kernel below may have given the inode number to another file meanwhile.
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

    /// Returns the path of a file in the source, by its present name in the kernel.
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
        // Another name of the file may be in the source.
        return status.linkCount > 1 && !status.isDirectory ? .unknown : .outside
    }

    /// Walks from the root down to a file. The directories on the path stay known as long as the file is known.
    ///
    /// Returns nil if the file is no longer at that path.
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
                // A rename may have come between the status query and this step.
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
