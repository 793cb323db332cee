// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge

/// A request of somebody who waits until a worker is done, and can be interrupted and killed meanwhile.
struct InterruptibleReply: Sendable {
    fileprivate let token: UInt
    fileprivate let reply: Parked<Reply>
}

extension CoordinatedFilesystem {
    /// An open waits from here until ``takeReply(_:)``. The claim stays as long, since the worker goes on.
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
                // There is no letting it through, and nobody else looks whether it is killed then.
                case .forced: return parkedRequests.interrupted(token)
                case .overdue: return
                }
                guard let reply = takeReply(waiting) else { return }
                engine.counters.interrupted.count()
                engine.journal.note(.interrupted, at: Engine.now, claim: handle.claim, by: handle)
                reply.fail(end.error)
            })
        return waiting
    }

    func isReplyAwaited(_ waiting: InterruptibleReply) -> Bool { parkedRequests.holds(waiting.token) }

    /// Nothing if it was interrupted: whoever takes it out of the table answers it.
    func takeReply(_ waiting: InterruptibleReply) -> Reply? {
        parkedRequests.leave(waiting.token) ? waiting.reply.take() : nil
    }
}
