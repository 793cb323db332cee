// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Opening is the moment of coordination: a claim is made here and ends with the handle.
///
/// The handle's number is that of its claim. Under passthrough the kernel reads and writes the file without the daemon.
///
/// An open that meets no other program takes four steps, on one thread:
/// 1. ``OpenArrivals`` finds out that the thread does not return to an earlier open.
/// 2. ``OpenClaims`` makes the handle, and its claim is granted at once.
/// 3. ``OpenPreservation`` finds out that the open would destroy no contents of other programs.
/// 4. ``HandleOpener`` makes the data reachable, enters the handle into the table, and answers the request.
///
/// An open that must wait is parked as a ``PendingOpen`` after step 2, and goes on with step 3 when its claim is granted.
final class Open: Sendable {
    private let arrivals: OpenArrivals
    let claims: OpenClaims
    private let preservation: OpenPreservation
    let opener: HandleOpener
    let context: MountContext
    let coordinator: RetryCoordinator
    let lockPoller: LockPoller
    /// Limits the log lines about users with too many waiting opens: a user may cause them on purpose to fill the log.
    let crowdLines = SharedLogRateLimiter(lines: 1)

    init(
        _ context: MountContext, _ coordinator: RetryCoordinator, _ lockPoller: LockPoller,
        _ arrivals: OpenArrivals, _ claims: OpenClaims, _ preservation: OpenPreservation,
        _ opener: HandleOpener
    ) {
        self.context = context
        self.coordinator = coordinator
        self.lockPoller = lockPoller
        self.arrivals = arrivals
        self.claims = claims
        self.preservation = preservation
        self.opener = opener
    }

    func open(_ id: NodeID, flags: Int32, reply: consuming Reply) {
        switch arrivals.arrive(at: id, flags: flags, by: reply.caller) {
        case .unknownNode: reply.fail(.stale)
        case .new(let node, let isRetry): begin(node, flags: flags, isRetry: isRetry, reply: reply)
        case .crowded(let node, let isRetry): enqueue(node, flags: flags, isRetry: isRetry, reply: reply)
        case .returning(let open, let node, let isRetry):
            resume(open, on: node, flags: flags, isRetry: isRetry, reply: reply)
        }
    }

    /// Begins an open after earlier opens of the same user.
    private func enqueue(_ node: Node, flags: Int32, isRetry: Bool, reply: consuming Reply) {
        let user = reply.caller.user
        let parked = Parked(reply)
        let body: OpenQueue.Body = { [self] in
            guard let reply = parked.take() else { return }
            // The program will not use the file, so the file must not be truncated for it.
            guard !context.hasEnded else { return reply.fail(.notConnected) }
            guard !reply.isInterrupted || !ParkedRequests.isGone(reply.caller.thread) else {
                return reply.fail(.interrupted)
            }
            begin(node, flags: flags, isRetry: isRetry, reply: reply)
        }
        arrivals.enqueue(body, of: user, on: node)
    }

    /// Claims the file, and opens it if the claim is granted at once.
    ///
    /// - Parameters:
    ///   - isRetry: The kernel asks for the second time, and will not ask again.
    ///   - fileClaims: How often this open has claimed its file anew after a wait.
    func begin(_ node: Node, flags: Int32, isRetry: Bool, fileClaims: Int = 0, reply: consuming Reply) {
        switch claims.claim(node, flags: flags, isRetry: isRetry, by: reply.caller) {
        case .admitted(let handle, let grant): finish(handle, grant, reply: reply)
        case .waiting(let handle): park(handle, isRetry: isRetry, fileClaims: fileClaims, reply: reply)
        case .outdated(let handle, let grant):
            let open = pendingOpen(handle, isRetry: isRetry, fileClaims: fileClaims, for: reply)
            admit(open, grant, reply: reply)
        case .replaced(let handle): retrySuccessor(handle, reply: reply)
        }
    }

    /// Opens a file with a granted claim, or without a claim; preserves contents first if the open would destroy them.
    func finish(_ handle: Handle, _ grant: Grant?, reply: consuming Reply) {
        let work = preservation.prepare(handle, grant)
        if case .ready = work { return opener.open(handle, reply: reply) }
        let request = makeInterruptible(handle, reply: reply)
        let waiter = OpenPreservation.Waiter(isAwaited: { [self] in isReplyAwaited(request) }) {
            [self] mayOpen in
            guard let reply = takeReply(request) else { return opener.endUnopened(handle) }
            guard mayOpen else {
                opener.endUnopened(handle)
                return reply.fail(.busy)
            }
            opener.open(handle, reply: reply)
        }
        preservation.perform(work, for: handle, grant, waiter)
    }
}
