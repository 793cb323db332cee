// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge

/// What other programs change out of band: the kernel's caches are invalidated, and presenters are told.
///
/// ``SourceWatchThread`` and ``RightsWatcher`` call it, on threads of their own.
final class OutOfBandMonitor: Sendable {
    let tree: FileTree
    let events: DocumentEvents
    let identity: DocumentIdentity
    let engine: Engine
    let connection: Connection
    let submounts: Submounts
    let nodes: NodeTable
    let handles: HandleTable
    let sourceWatcher: SourceWatcher?
    let documents: DocumentTable

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch, _ events: DocumentEvents,
        _ identity: DocumentIdentity
    ) {
        self.tree = tree
        self.events = events
        self.identity = identity
        engine = context.engine
        connection = context.connection
        submounts = context.submounts
        nodes = tree.nodes
        handles = tree.handles
        sourceWatcher = sourceWatch.watcher
        documents = events.documents
    }
}
