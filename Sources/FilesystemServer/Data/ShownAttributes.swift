// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Shows the attributes of files to the kernel. A few shown attributes differ from those of the file below.
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
        // The validity is decided before the status is read. If the file changes between these two steps, the kernel does not
        // cache a status that is out of date.
        let valid = cappedValidity(node, valid)
        do throws(Errno) {
            reply.attributes(shown(try node.descriptor().descriptor.status(), of: node), valid: valid)
        } catch {
            reply.fail(error)
        }
    }

    /// The status of a file as the mount shows it. The number of links does not include the directory `.truce`, nor links to
    /// versions in the store.
    func shown(_ status: FileStatus, of node: Node) -> FileStatus {
        var status = submounts.shown(status)
        if node.isRoot {
            // A file system that does not count subdirectories reports 1 link for each directory. A count of 1 or 2 cannot
            // include the store, so nothing is subtracted.
            if context.hasStore, status.linkCount > 2 { status.linkCount -= 1 }
        } else if status.isRegularFile, context.hasStore {
            let (links, hasName) = node.linkCount
            // The node may list a link in the store that the store has just replaced by a copy. So the result is at least 1 for
            // a file that has a name.
            let least = min(status.linkCount, hasName ? 1 : 0)
            status.linkCount = max(least, status.linkCount - min(links, status.linkCount))
        }
        return status
    }

    /// How long the kernel may cache the file's attributes. The result is `none` if the attributes can change without a
    /// request:
    /// - A shared mapping of a passthrough file may exist. Changes by the mapping change the file's times without a request
    ///   (D87).
    /// - A presenter has unsaved changes of the document (D168).
    func cappedValidity(_ node: Node, _ valid: Validity) -> Validity {
        if node.hasMappers { return .none }
        return engine.isAnythingUnsaved && engine.isUnsaved(node.item) ? .none : valid
    }
}
