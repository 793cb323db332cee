// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// The first step of an open: finds out whether the thread is repeating an interrupted open, or an open that was
/// answered ESTALE. If the user has many waiting opens, adds the open to a queue.
final class OpenArrivals: Sendable {
    enum Arrival {
        /// The request is for a node that the daemon does not know.
        case unknownNode
        /// A new open.
        ///
        /// `isRetry`: whether the kernel has already used its only retry.
        case new(Node, isRetry: Bool)
        /// A new open of a user with many waiting opens. The open is added to the user's queue.
        case crowded(Node, isRetry: Bool)
        /// The thread has made the same open before, and the open was interrupted or answered ESTALE.
        case returning(PendingOpen, Node, isRetry: Bool)
    }

    private let queue: OpenQueue
    private let saveLifecycle: SaveLifecycle
    private let nodes: NodeTable
    private let retries: RetryTable
    private let expectedRetries: ExpectedRetries<PendingOpen>
    private let parkedRequests: ParkedRequests

    init(
        _ context: MountContext, _ tree: FileTree, _ saveLifecycle: SaveLifecycle,
        _ coordinator: RetryCoordinator
    ) {
        self.saveLifecycle = saveLifecycle
        nodes = tree.nodes
        retries = coordinator.retries
        expectedRetries = coordinator.expectedRetries
        parkedRequests = coordinator.parkedRequests
        queue = OpenQueue { [timers = context.engine.timers] body in
            timers.schedule(at: (Engine.now + .milliseconds(100)).nanoseconds, body)
        }
    }

    /// Notes that a thread opens a file. Returns how the open must continue.
    @inline(__always)
    func arrive(at id: NodeID, flags: Int32, by caller: Caller) -> Arrival {
        guard let node = nodes[id] else { return .unknownNode }
        if !retries.isEmpty { retries.endLookup(by: caller.thread) }
        saveLifecycle.noteSaveActivity(by: caller.thread)
        let isChange = flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0
        saveLifecycle.noteUse(of: node, by: caller.thread, isChange: isChange)
        let isRetry = retries.takeRetryMark(caller.thread, at: Engine.now)
        if !expectedRetries.expectsNone, let open = expectedRetries.take(by: caller.thread) {
            return .returning(open, node, isRetry: isRetry)
        }
        return queue.isCrowded(caller.user, in: parkedRequests)
            ? .crowded(node, isRetry: isRetry) : .new(node, isRetry: isRetry)
    }

    /// Calls `begin` when the user's previous opens have begun. Because the opens are in a queue, other users' requests
    /// do not wait behind them.
    func enqueue(_ begin: @escaping OpenQueue.Body, of user: UInt32, on node: Node) {
        queue.add(of: user, on: node.isDistant ? node.key.mount : 0, begin) { turn in
            node.threads(for: .opening).run(turn)
        }
    }
}
