// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// The attributes of a file as the mount shows them.
final class ShownAttributes: Sendable {
    private let context: MountContext
    private let engine: Engine
    private let submounts: Submounts
    private let nodes: NodeTable

    init(_ context: MountContext, _ tree: FileTree) {
        self.context = context
        engine = context.engine
        submounts = context.submounts
        nodes = tree.nodes
    }

    func answerAttributes(of id: NodeID, valid: Validity, reply: consuming Reply) {
        guard let node = nodes[id] else { return reply.fail(.stale) }
        // Before the status is read: its result may be out of date already.
        let valid = cappedValidity(node, valid)
        do throws(Errno) {
            reply.attributes(shown(try node.descriptor().descriptor.status(), of: node), valid: valid)
        } catch {
            reply.fail(error)
        }
    }

    /// A status as the mount shows it: neither the store nor its links to versions count as links.
    func shown(_ status: FileStatus, of node: Node) -> FileStatus {
        var status = submounts.shown(status)
        if node.isRoot {
            // A file system that does not count subdirectories reports 1 link.
            if context.hasStore, status.linkCount > 2 { status.linkCount -= 1 }
        } else if status.isRegularFile, context.hasStore {
            let (links, hasName) = node.linkCount
            // The store may just have given a link contents of its own.
            let least = min(status.linkCount, hasName ? 1 : 0)
            status.linkCount = max(least, status.linkCount - min(links, status.linkCount))
        }
        return status
    }

    /// The validity of attributes, or none while they can change unnoticed:
    /// - While a shared mapping of a passthrough file may exist: its stores change the file's times without a request (D87).
    /// - While the document has unsaved changes (D168).
    func cappedValidity(_ node: Node, _ valid: Validity) -> Validity {
        if node.hasMappers { return .none }
        return engine.isAnythingUnsaved && engine.isUnsaved(node.item) ? .none : valid
    }
}
