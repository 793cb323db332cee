// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine

/// Answers requests that list directories: OPENDIR, READDIR, RELEASEDIR and FSYNCDIR.
final class DirectoryService: Sendable {
    let listings = ListingTable()
    let pendingListings = PendingListings()
    let context: MountContext
    let shownAttributes: ShownAttributes
    let identity: DocumentIdentity
    let saveLifecycle: SaveLifecycle
    let attributeReplies: AttributeReplies
    let engine: Engine
    let processes: ProcessResolver
    let submounts: Submounts
    let nodes: NodeTable
    let places: PlaceRegistry
    let saves: SaveTracker
    let documents: DocumentTable
    let parkedRequests: ParkedRequests

    init(
        _ context: MountContext, _ tree: FileTree, _ shownAttributes: ShownAttributes, _ saves: SaveTracker,
        _ events: DocumentEvents, _ identity: DocumentIdentity, _ saveLifecycle: SaveLifecycle,
        _ coordinator: RetryCoordinator, _ attributeReplies: AttributeReplies
    ) {
        self.context = context
        self.shownAttributes = shownAttributes
        self.identity = identity
        self.saveLifecycle = saveLifecycle
        self.attributeReplies = attributeReplies
        engine = context.engine
        processes = context.processes
        submounts = context.submounts
        nodes = tree.nodes
        places = tree.places
        self.saves = saves
        documents = events.documents
        parkedRequests = coordinator.parkedRequests
    }
}
