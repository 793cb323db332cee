// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge

/// A request that waits for a worker; it can be interrupted and killed meanwhile.
struct InterruptibleReply: Sendable {
    fileprivate let token: UInt
    fileprivate let reply: Parked<Reply>
}

extension Open {
    private var parkedRequests: ParkedRequests { coordinator.parkedRequests }

    /// An open waits from here until ``takeReply(_:)``. The claim is held as long, since the worker goes on.
    func makeInterruptible(_ handle: Handle, reply: consuming Reply) -> InterruptibleReply {
        let token = parkedRequests.makeToken()
        reply.tellInterrupts(token)
        let waiting = InterruptibleReply(token: token, reply: Parked(reply))
        parkedRequests.enter(
            token,
            ParkedRequests.ParkedRequest(thread: handle.thread) { [self] way in
                let end: ParkedRequests.AbandonReason
                switch way {
                case .abandoned(let reason): end = reason
                // The wait cannot be shortened. Signals are checked again, since nothing else notices then that the caller is
                // killed.
                case .forced: return parkedRequests.interrupted(token)
                case .overdue: return
                }
                guard let reply = takeReply(waiting) else { return }
                context.engine.counters.interrupted.count()
                context.engine.journal.note(.interrupted, at: Engine.now, claim: handle.claim, by: handle)
                reply.fail(end.error)
            })
        return waiting
    }

    func isReplyAwaited(_ waiting: InterruptibleReply) -> Bool { parkedRequests.holds(waiting.token) }

    /// Returns nil if the request was interrupted: the caller that removes it from the table answers it.
    func takeReply(_ waiting: InterruptibleReply) -> Reply? {
        parkedRequests.leave(waiting.token) ? waiting.reply.take() : nil
    }
}
