// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge

/// Handles requests that wait while the kernel holds no lock, and that the kernel sends again after the wait.
///
/// - ``coordinate(_:after:reply:then:)``: a change of names or of a size, from its claim to its end.
/// - ``answerMissing(_:in:reply:)``: a lookup of a name that is missing in the middle of a save.
/// - ``expectRetry(_:for:)``: an open that was interrupted, or answered ESTALE.
/// - ``retryIfRenamedOutOfBand(_:from:unless:_:)``: a request with a path that now leads to another file than before.
final class RetryCoordinator: Sendable {
    let retries = RetryTable()
    let expectedRetries = ExpectedRetries<PendingOpen>()
    let parkedRequests: ParkedRequests
    let context: MountContext
    let sourceWatch: SourceWatch
    let shownAttributes: ShownAttributes
    let identity: DocumentIdentity
    let saveLifecycle: SaveLifecycle
    let engine: Engine
    let connection: Connection
    let processes: ProcessResolver
    let nodes: NodeTable
    let saves: SaveTracker

    init(
        _ context: MountContext, _ tree: FileTree, _ sourceWatch: SourceWatch,
        _ shownAttributes: ShownAttributes, _ saves: SaveTracker, _ identity: DocumentIdentity,
        _ saveLifecycle: SaveLifecycle
    ) {
        self.context = context
        self.sourceWatch = sourceWatch
        self.shownAttributes = shownAttributes
        self.identity = identity
        self.saveLifecycle = saveLifecycle
        engine = context.engine
        connection = context.connection
        processes = context.processes
        nodes = tree.nodes
        self.saves = saves
        parkedRequests = ParkedRequests(timers: context.engine.timers, counters: context.engine.counters)
    }
}
