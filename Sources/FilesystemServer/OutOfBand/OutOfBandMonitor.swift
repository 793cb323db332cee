// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge

/// Treats out-of-band changes: invalidates the kernel's caches, and tells presenters of the changes.
///
/// ``SourceWatchThread`` and ``RightsWatcher`` call this object, each on a thread of its own.
final class OutOfBandMonitor: Sendable {
    let tree: FileTree
    let conflictCopies: ConflictCopies
    let sightings: Sightings
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
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch,
        _ conflictCopies: ConflictCopies, _ sightings: Sightings, _ events: DocumentEvents,
        _ identity: DocumentIdentity
    ) {
        self.tree = tree
        self.conflictCopies = conflictCopies
        self.sightings = sightings
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
