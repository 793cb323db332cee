// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// What bounced requests have in common: their question, its interrupts, and their end.
extension CoordinatedFilesystem {
    /// How long the kernel's retry is expected once its question is answered.
    private static let retryExpected = Span.seconds(1)
    /// How long it is remembered after that: by then a program that does not run is hardly about to.
    private static let lateRetryExpected = Span.seconds(4)
    /// How long the kernel may take to give a request up that it found nothing for.
    private static let lastLook = Span.milliseconds(250)

    /// Notes that a thread's request is being sent back; returns the number of this bounce.
    func beginBounce(_ cause: Bounces.Cause, in directory: NodeID, by thread: Int32) -> UInt64 {
        let (serial, former) = bounces.begin(cause, in: directory, by: thread)
        giveUp(former?.cause.request)
        return serial
    }

    func noteBounce(by subject: any JournalSubject, _ claim: ClaimID? = nil) {
        engine.counters.bounced.count()
        engine.journal.note(.bounced, at: Engine.now, claim: claim, by: subject)
    }

    /// Keeps a GETATTR that is the question of a bounced request; gives back any other.
    func holdQuestion(_ reply: consuming Reply, about id: NodeID) -> Reply? {
        let thread = reply.caller.thread
        guard bounces.awaitsQuestion(of: thread, about: id) else { return reply }
        let token = parking.makeToken()
        reply.tellInterrupts(token)
        parking.enter(
            token,
            Parking.Spot(thread: thread) { [self] way in
                switch way {
                case .abandoned(let end): abandonQuestion(of: thread, end)
                case .forced: endWait(of: thread) { engine.force($0) }
                case .overdue: endWait(of: thread) { engine.endWait(of: $0) }
                }
            })
        let rest = bounces.hold(reply, about: id, token: token)
        guard rest == nil else {
            parking.leave(token)
            return rest
        }
        // A signal may have been looked at before there was a question for it to end.
        parking.lookOnce(token)
        if let bounce = bounces[thread], bounce.mayHoldLock, ProcessInspection.mayCreateFile(thread: thread) {
            engine.timers.schedule(at: (Engine.now + engine.bounds.lockwait).nanoseconds) { [self] in
                releaseQuestion(of: bounce.serial, by: thread, about: id)
            }
        }
        if parking.isClosed { abandonQuestion(of: thread, .unmounted) }
        return nil
    }

    /// The wait of a bounced request is over: its question is answered, and the request comes again.
    func answerQuestion(of serial: UInt64, by thread: Int32, about id: NodeID) {
        guard let question = bounces.settle(serial, by: thread)?.take() else { return }
        parking.leave(question.token)
        goOn(nodes[id], question.reply) { [self] in answerAttributes(of: id, valid: .none, reply: $0) }
    }

    /// A question that may have been asked under the directory's lock is answered though the wait goes on.
    private func releaseQuestion(of serial: UInt64, by thread: Int32, about id: NodeID) {
        guard let question = bounces.release(serial, by: thread)?.take() else { return }
        parking.leave(question.token)
        goOn(nodes[id], question.reply) { [self] in answerAttributes(of: id, valid: .none, reply: $0) }
    }

    /// Does what the end of a bounce takes if its request does not come again in time, and forgets it later: whoever was not run for
    /// so long, and then has to wait, must not be sent back a second time.
    func expire(_ serial: UInt64, of thread: Int32, then finish: @escaping @Sendable () -> Void) {
        let late = Engine.now + Self.retryExpected
        engine.timers.schedule(at: late.nanoseconds) { [self] in
            guard bounces.noteLate(serial, by: thread) else { return }
            finish()
            engine.timers.schedule(at: (late + Self.lateRetryExpected).nanoseconds) { [self] in
                _ = bounces.drop(serial, by: thread)
            }
        }
    }

    /// Forgets a bounce whose request hardly comes again.
    func forget(_ serial: UInt64, of thread: Int32) {
        engine.timers.schedule(at: (Engine.now + Self.lastLook).nanoseconds) { [self] in
            _ = bounces.drop(serial, by: thread)
        }
    }

    private func abandonQuestion(of thread: Int32, _ end: Parking.End) {
        guard let (bounce, question) = bounces.abandon(by: thread) else { return }
        abandon(bounce.cause.request)
        if end != .unmounted { engine.counters.interrupted.count() }
        guard let question = question.take() else { return }
        parking.leave(question.token)
        question.reply.fail(end.error)
    }

    private func endWait(of thread: Int32, by end: (ClaimID) -> Void) {
        guard let bounce = bounces[thread] else { return }
        if let request = bounce.cause.request, request.isWaiting { return end(request.claim) }
        answerQuestion(of: bounce.serial, by: thread, about: bounce.directory)
    }
}
