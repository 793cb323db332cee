// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Opens files. The open of a file is when programs take turns: a claim is made, and it ends when the handle is closed.
///
/// The handle has the same number as its claim. Under passthrough, the kernel later reads and writes the file without
/// the daemon.
///
/// If no other program uses the file, an open takes four steps, all on the same thread: 1. ``OpenArrivals`` finds out
/// whether the thread has made the same open before. Here it has not. 2. ``OpenClaims`` makes the handle and its claim,
/// and the claim is granted without a wait. 3. ``OpenPreservation`` finds out whether the open would destroy contents
/// of other programs. Here it would not. 4. ``HandleOpener`` connects the handle with the data, adds the handle to the
/// table, and answers the request.
///
/// If the claim must wait, the open is parked as a ``PendingOpen`` after step 2. When the claim is granted, step 3
/// follows.
final class Open: Sendable {
    private let arrivals: OpenArrivals
    let claims: OpenClaims
    private let preservation: OpenPreservation
    let opener: HandleOpener
    let context: MountContext
    let coordinator: RetryCoordinator
    let lockPoller: LockPoller
    /// Limits the number of log lines about users with too many waiting opens. Without a limit, a user could fill the
    /// log on purpose.
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

    /// Adds an open to the user's queue. It begins after the earlier opens in the queue.
    private func enqueue(_ node: Node, flags: Int32, isRetry: Bool, reply: consuming Reply) {
        let user = reply.caller.user
        let parked = Parked(reply)
        let body: OpenQueue.Body = { [self] in
            guard let reply = parked.take() else { return }
            // The connection has ended, so no program will use the file. The open must not truncate it.
            guard !context.hasEnded else { return reply.fail(.notConnected) }
            guard !reply.isInterrupted || !ParkedRequests.isGone(reply.caller.thread) else {
                return reply.fail(.interrupted)
            }
            begin(node, flags: flags, isRetry: isRetry, reply: reply)
        }
        arrivals.enqueue(body, of: user, on: node)
    }

    /// Makes the claim of an open. Opens the file if the claim is granted without a wait.
    ///
    /// - Parameters:
    ///   - node: The file.
    ///   - flags: The flags of open(2).
    ///   - isRetry: Whether the kernel has already used its only retry.
    ///   - fileClaims: How often this open has made a new claim for its file after a wait.
    ///   - reply: The reply to the request.
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

    /// Opens a file. The claim of the handle was granted before, or the file needs no claim. Contents that the open
    /// would destroy are preserved.
    func finish(_ handle: Handle, _ grant: Grant?, reply: consuming Reply) {
        guard preservation.mayMerge else { return finish(handle, grant, in: nil, reply: reply) }
        guard let passage = preservation.merges.pass(handle.node.id) else {
            return awaitMerge(handle, grant, reply: reply)
        }
        finish(handle, grant, in: passage, reply: reply)
    }

    /// Lets an open wait until the file is merged, at most 200 ms. The program may have closed the file just before, and does
    /// not wait for its own claim.
    private func awaitMerge(_ handle: Handle, _ grant: Grant?, reply: consuming Reply) {
        let request = makeInterruptible(handle, reply: reply)
        preservation.merges.wait(for: handle.node.id, by: context.engine.timers) { [self] passage in
            guard let reply = takeReply(request) else { return opener.endUnopened(handle) }
            context.resumeRequest(handle.node, reply, mayBlock: true) { [self] reply in
                finish(handle, grant, in: passage, reply: reply)
            }
        }
    }

    /// `passage`: until its end, the file is not merged.
    private func finish(
        _ handle: Handle, _ grant: Grant?, in passage: MergePassage?, reply: consuming Reply
    ) {
        let work = preservation.prepare(handle, grant)
        if case .ready = work { return opener.open(handle, in: passage, reply: reply) }
        let request = makeInterruptible(handle, reply: reply)
        let waiter = OpenPreservation.Waiter(isAwaited: { [self] in isReplyAwaited(request) }) {
            [self] mayOpen in
            guard let reply = takeReply(request) else { return opener.endUnopened(handle) }
            guard mayOpen else {
                opener.endUnopened(handle)
                return reply.fail(.busy)
            }
            opener.open(handle, in: passage, reply: reply)
        }
        preservation.perform(work, for: handle, grant, waiter)
    }
}
