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

    /// From now on, a signal ends the open's wait for a worker, until ``takeReply(_:)`` is called. The claim stays held
    /// until the worker has finished, even after a signal.
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
                // A wait for a worker cannot be made shorter. The signals are checked once more, because the caller may have
                // been killed in the meantime.
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

    /// Returns the reply, with which the caller must answer the request. Returns nil if a signal has ended the wait,
    /// because the request was then answered.
    func takeReply(_ waiting: InterruptibleReply) -> Reply? {
        parkedRequests.leave(waiting.token) ? waiting.reply.take() : nil
    }
}
