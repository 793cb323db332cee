// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge

/// The reply of a request that waits for a worker. A signal can end the wait.
struct InterruptibleReply: Sendable {
    fileprivate let token: UInt
    fileprivate let reply: Parked<Reply>
}

extension Open {
    private var parkedRequests: ParkedRequests { coordinator.parkedRequests }

    /// Lets an open be interrupted until ``takeReply(_:)``. Its claim is held until the worker ends, even if the open is
    /// interrupted.
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
                // The wait cannot be shortened. The signals are checked again, because nothing else shows now that the
                // caller was killed.
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

    /// Takes the reply to answer the request. Returns nil if the request was interrupted, and so is answered already.
    func takeReply(_ waiting: InterruptibleReply) -> Reply? {
        parkedRequests.leave(waiting.token) ? waiting.reply.take() : nil
    }
}
