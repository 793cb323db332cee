// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge

/// A request of somebody who waits until a worker is done, and can be interrupted and killed meanwhile.
struct InterruptibleReply: Sendable {
    fileprivate let token: UInt
    fileprivate let reply: Parked<Reply>
}

extension CoordinatedFilesystem {
    /// An open waits from here until ``take(_:)``. The claim stays as long, since the worker goes on.
    func makeInterruptible(_ handle: Handle, reply: consuming Reply) -> InterruptibleReply {
        let token = parking.makeToken()
        reply.tellInterrupts(token)
        let waiting = InterruptibleReply(token: token, reply: Parked(reply))
        parking.enter(
            token,
            Parking.Spot(thread: handle.thread) { [self] way in
                let end: Parking.End
                switch way {
                case .abandoned(let reason): end = reason
                // There is no letting it through, and nobody else looks whether it is killed then.
                case .forced: return parking.interrupted(token)
                case .overdue: return
                }
                guard let reply = take(waiting) else { return }
                engine.counters.interrupted.count()
                engine.journal.note(.interrupted, at: Engine.now, claim: handle.claim, by: handle)
                reply.fail(end.error)
            })
        return waiting
    }

    func isAwaited(_ waiting: InterruptibleReply) -> Bool { parking.holds(waiting.token) }

    /// Nothing if it was interrupted: whoever takes it out of the table answers it.
    func take(_ waiting: InterruptibleReply) -> Reply? {
        parking.leave(waiting.token) ? waiting.reply.take() : nil
    }
}
