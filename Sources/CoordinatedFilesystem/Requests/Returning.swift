// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Steps that vacate a name wait until everybody who was sent back to it has arrived.
///
/// The kernel retries a request only once. Whoever waited for one save of a document and comes back in the
/// middle of the next one could only be told that the document does not exist.
extension CoordinatedFilesystem {
    /// How long such a step waits; those on their way need microseconds, unless they do not run.
    private static let longestDelay = Span.milliseconds(500)
    private static let interval = Span.milliseconds(1)

    /// Answers a step that has to wait and returns nothing; gives the reply of any other back.
    func delayVacating(_ change: NameChange, of node: Node, reply: consuming Reply) -> Reply? {
        let thread = change.caller.thread
        let cause = Bounces.Cause.vacating(name: change.name.bytes)
        // It has waited already, and the kernel will not ask a third time.
        if bounces.finish(by: thread, where: { $0 == cause }) != nil { return reply }
        guard thread > 0, isAwaited(change, node.item) else { return reply }
        let serial = beginBounce(cause, in: change.directory.id, by: thread)
        noteBounce(by: change.subject)
        connection.invalidateAttributes(of: change.directory.id)
        lookAgain(serial, change, node.item, until: Engine.now + Self.longestDelay)
        reply.fail(.stale)
        return nil
    }

    private func isAwaited(_ change: NameChange, _ document: ItemID) -> Bool {
        bounces.isLookupReturning(to: change.name.bytes, in: change.directory.id)
            || returns.isExpected(at: document)
    }

    private func lookAgain(_ serial: UInt64, _ change: NameChange, _ document: ItemID, until end: Instant) {
        engine.timers.schedule(at: (Engine.now + Self.interval).nanoseconds) { [self] in
            if isAwaited(change, document), Engine.now < end {
                return lookAgain(serial, change, document, until: end)
            }
            let (thread, directory) = (change.caller.thread, change.directory.id)
            answerQuestion(of: serial, by: thread, about: directory)
            expire(serial, of: thread) {}
        }
    }
}
