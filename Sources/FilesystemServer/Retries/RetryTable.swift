// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Synchronization

/// Requests that were sent back so that they wait without the directory lock they came under.
///
/// A request that must wait is answered ESTALE. The kernel drops its locks and walks the path again;
/// because the directory's attributes were invalidated it asks for them, from the same thread and with no
/// lock held, and *that* question waits. Once it is answered the request returns.
///
///     sent back ──question──▶ question held ──settled──▶ settled ──request returns──▶ gone
///         ├──────settled────────────────────────────────────▲  └──late──▶ given up ──request returns, or later──▶ gone
///         └──request returns (it never asked)──▶ gone
///
/// One thread has one request at a time, so a thread names its bounce. The kernel retries only once, so
/// the same request is never sent back twice; but a look at a missing name is, if it comes again without having asked: it
/// is no retry.
final class RetryTable: Sendable {
    enum RetryReason: Sendable {
        /// A change of a size or of names, with its claim.
        case request(ClaimedRequest)
        /// A look at a vacated name, which was unlinked or else is another name's now.
        case lookup(name: [UInt8], isUnlinked: Bool)

        var request: ClaimedRequest? { if case .request(let request) = self { request } else { nil } }
    }

    struct PendingRetry: Sendable {
        let cause: RetryReason
        let directory: NodeID
        let serial: UInt64
        var isSettled = false
        /// The request did not come when it was expected, and nobody is kept waiting for it any more. Its thread has not run, or does
        /// something else; if it still comes, the kernel has used its retry.
        fileprivate(set) var isLate = false
        /// The kernel has asked about the directory on its way back, which it does without holding a lock.
        fileprivate(set) var hasAsked = false
        /// Its question was answered before the wait was over, and none is held any more.
        fileprivate var isReleased = false
        /// The kernel has looked names up that lead to the directory: it does walk the path again.
        fileprivate var hasWalked = false
        fileprivate var getattr: Parked<ParkedGetattr>?

        func isLookup(of name: [UInt8], in directory: NodeID) -> Bool {
            guard case .lookup(name, _) = cause else { return false }
            return self.directory == directory
        }

        /// Whether an open that may create the file may ask under the directory's lock after all: its look came without the lock
        /// if an unlink was just taking the name away.
        var mayHoldLock: Bool {
            guard case .lookup(_, isUnlinked: true) = cause else { return false }
            return !hasWalked
        }
    }

    /// A parked GETATTR with the number its interrupts go by.
    struct ParkedGetattr: ~Copyable, Sendable {
        let reply: Reply
        let token: UInt
    }

    private struct State {
        var retries: [Int32: PendingRetry] = [:]
        var nextSerial: UInt64 = 1
        var retryMarks = RetryMarks()
    }

    /// How soon the request comes for which the kernel looked a name up again, unless its thread does not
    /// run.
    private static let arrival = TimeSpan.milliseconds(250)
    /// The same for the request that was sent back so that the path is walked again, if it does not run all that time.
    private static let walk = TimeSpan.seconds(1)

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)
    private let returnedCount = Atomic<Int>(0)

    /// Whether no request is on its way back, which is what the fast paths ask.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }
    /// Whether no look can be anything but a first one.
    var isEmptyForLookups: Bool { isEmpty && returnedCount.load(ordering: .relaxed) == 0 }

    /// Notes that a thread's request is being sent back. Returns the number of this bounce, and what the
    /// thread was sent back for before, if it never returned to it.
    func begin(_ cause: RetryReason, in directory: NodeID, by thread: Int32) -> (
        serial: UInt64, former: PendingRetry?
    ) {
        state.withLock { state in
            let serial = state.nextSerial
            state.nextSerial += 1
            let retry = PendingRetry(cause: cause, directory: directory, serial: serial)
            let former = state.retries.updateValue(retry, forKey: thread)
            if former == nil { count.add(1, ordering: .sequentiallyConsistent) }
            return (serial, former)
        }
    }

    /// The request returned: takes its bounce, settled or not.
    func takeRetry(by thread: Int32, where matches: (PendingRetry) -> Bool) -> PendingRetry? {
        guard !isEmpty else { return nil }
        return state.withLock { state in
            guard let retry = state.retries[thread], matches(retry) else { return nil }
            remove(thread, from: &state)
            return retry
        }
    }

    /// What a look at a name is to the thread that makes it.
    enum LookupRole: Hashable, Sendable {
        /// Nothing that was sent back: if it is now, the kernel comes again.
        case first
        /// The retry of a look that was sent back.
        case retry
        /// On the way to something else that was sent back.
        case traversal
    }

    /// A thread has looked at a name; ends the bounce of this look, if it has one.
    ///
    /// To be told after the look: once the wait is over, whoever is to take the name away waits for that
    /// (``isLookupRetrying(to:in:)``).
    func classifyLookup(at name: [UInt8], in directory: NodeID, by caller: Caller, at now: Instant)
        -> LookupRole
    {
        let thread = caller.thread
        guard let retry = takeRetry(by: thread, where: { $0.isLookup(of: name, in: directory) }) else {
            if isLastLook(at: RetryMarks.RetryTarget(directory: directory, name: name), by: thread, at: now) {
                return .retry
            }
            return notePassing(of: thread, at: now) ? .traversal : .first
        }
        // The kernel also looks without the directory's lock, at a name that it knows and that an unlink is just taking away.
        // If that fails it looks again with the lock, without having asked, and has retried nothing.
        guard retry.hasAsked else { return .first }
        noteRetryArrival(of: caller, at: now)
        return .retry
    }

    /// A thread that came back to a name has found nothing there.
    func noteMissingName(at name: [UInt8], in directory: NodeID, by caller: Caller, at now: Instant) {
        let place = RetryMarks.RetryTarget(directory: directory, name: name)
        note(.came(nothingAt: place), until: now + Self.arrival, of: caller, at: now)
    }

    /// Whether a thread that came back to a name and found nothing looks at it for the last time. Asked once.
    private func isLastLook(at place: RetryMarks.RetryTarget, by thread: Int32, at now: Instant) -> Bool {
        state.withLock { $0.retryMarks.takeMissing(place, by: thread, at: now) }
    }

    /// Whether a thread that looks at a name is on its way to another.
    private func notePassing(of thread: Int32, at now: Instant) -> Bool {
        state.withLock { state in
            guard state.retries[thread] != nil else {
                return state.retryMarks.isOnItsWay(thread, at: now)
            }
            state.retries[thread]?.hasWalked = true
            return true
        }
    }

    /// A thread came back to a name: whatever it is about to do there, the kernel's one retry is used up.
    func noteRetryArrival(of caller: Caller, at now: Instant) {
        note(.came(nothingAt: nil), until: now + Self.arrival, of: caller, at: now)
    }

    /// A thread is sent back so that the kernel walks the path again, and nothing else: its one retry is used up.
    func noteRetryRequest(_ caller: Caller, at now: Instant) {
        note(.isOnItsWay, until: now + Self.walk, of: caller, at: now)
    }

    /// Who was sent back to walk the path again has found nothing: it does what it is about to do at once, if anything.
    func expectRetrySoon(by thread: Int32, at now: Instant) {
        guard returnedCount.load(ordering: .relaxed) > 0 else { return }
        state.withLock { $0.retryMarks.expect(thread, until: now + Self.arrival) }
    }

    private func note(_ stage: RetryMarks.Stage, until end: Instant, of caller: Caller, at now: Instant) {
        state.withLock { state in
            state.retryMarks.mark(caller, as: stage, until: end, at: now)
            returnedCount.store(state.retryMarks.count, ordering: .sequentiallyConsistent)
        }
    }

    /// Whether a thread can be sent back: not if it was, or if it has come back to a name and has not done there yet what it
    /// is about to do.
    func mayRetry(_ thread: Int32, at now: Instant) -> Bool {
        state.withLock { $0.retries[thread] == nil && !$0.retryMarks.has(thread, at: now) }
    }

    /// Whether a thread has used the kernel's one retry for what it is about to do, as far as is known.
    func isRetrying(_ thread: Int32, at now: Instant) -> Bool {
        state.withLock { $0.retries[thread] != nil || $0.retryMarks.has(thread, at: now) }
    }

    /// Whether the kernel would not retry what a thread does now. Asked once for each request.
    func takeRetryMark(_ thread: Int32, at moment: @autoclosure () -> Instant) -> Bool {
        guard returnedCount.load(ordering: .relaxed) > 0 else { return false }
        let now = moment()
        return state.withLock { state in
            let takeRetryMark = state.retryMarks.take(thread, at: now)
            returnedCount.store(state.retryMarks.count, ordering: .sequentiallyConsistent)
            return takeRetryMark
        }
    }

    /// Notes that the wait is over, and returns the question that may be answered now.
    func completeWait(_ serial: UInt64, by thread: Int32) -> Parked<ParkedGetattr>? {
        state.withLock { state in
            guard state.retries[thread]?.serial == serial else { return nil }
            state.retries[thread]?.isSettled = true
            return state.retries[thread]?.getattr.take()
        }
    }

    /// The threads that look at a vacated name of a directory, with the numbers of their bounces.
    func lookups(of name: [UInt8], in directory: NodeID) -> [(thread: Int32, serial: UInt64)] {
        state.withLock { state in
            state.retries.filter { $0.value.isLookup(of: name, in: directory) }
                .map { ($0.key, $0.value.serial) }.sorted { $0.1 < $1.1 }
        }
    }

    /// Whether a thread whose wait for a vacated name is over has not looked again yet.
    func isLookupRetrying(to name: [UInt8], in directory: NodeID) -> Bool {
        guard !isEmpty else { return false }
        return state.withLock { state in
            state.retries.values.contains {
                $0.isSettled && !$0.isLate && $0.isLookup(of: name, in: directory)
            }
        }
    }

    /// The request is late. Returns whether it was expected until now.
    func noteLate(_ serial: UInt64, by thread: Int32) -> Bool {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.serial == serial, !retry.isLate else {
                return false
            }
            state.retries[thread]?.isLate = true
            return true
        }
    }

    /// The request will not return, or returned as something else.
    func drop(_ serial: UInt64, by thread: Int32) -> PendingRetry? {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.serial == serial else { return nil }
            remove(thread, from: &state)
            return retry
        }
    }

    subscript(thread: Int32) -> PendingRetry? { state.withLock { $0.retries[thread] } }

    /// A thread opens something: it is not on its way back to a look any more, nor to what is late.
    func endLookup(by thread: Int32) {
        _ = takeRetry(by: thread) { if case .lookup = $0.cause { true } else { $0.isLate } }
    }

    /// A thread asks for the attributes of a node. Returns whether that is a question to be held.
    func awaitsGetattr(of thread: Int32, about node: NodeID) -> Bool {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.directory == node else { return false }
            state.retries[thread]?.hasAsked = true
            return !retry.isSettled && !retry.isReleased
        }
    }

    /// The question is answered before the wait is over: it may have been asked with the directory's lock held, which the
    /// program that is waited for may need. What comes next counts as the retry, so the caller is never sent back twice.
    func release(_ serial: UInt64, by thread: Int32) -> Parked<ParkedGetattr>? {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.serial == serial, !retry.isSettled else {
                return nil
            }
            state.retries[thread]?.isReleased = true
            return state.retries[thread]?.getattr.take()
        }
    }

    /// The thread of a held question was interrupted: takes the bounce and the question.
    func abandon(by thread: Int32) -> (PendingRetry, Parked<ParkedGetattr>)? {
        state.withLock { state in
            guard let retry = state.retries[thread], let getattr = retry.getattr else { return nil }
            remove(thread, from: &state)
            return (retry, getattr)
        }
    }

    /// Keeps the question of a returning thread until its wait is over; gives back any other.
    ///
    /// The token was made for the question and is not used if the reply is given back.
    func hold(_ reply: consuming Reply, about node: NodeID, token: UInt) -> Reply? {
        let thread = reply.caller.thread
        let parked = Parked(ParkedGetattr(reply: reply, token: token))
        let isHeld = state.withLock { state in
            guard let retry = state.retries[thread], retry.directory == node, !retry.isSettled,
                !retry.isReleased
            else { return false }
            state.retries[thread]?.getattr = parked
            return true
        }
        guard !isHeld, let getattr = parked.take() else { return nil }
        return getattr.reply
    }

    /// How long an answer may be believed: an answer in passing must not swallow the question.
    func validity(_ normal: Validity, to thread: Int32, about node: NodeID? = nil) -> Validity {
        guard !isEmpty else { return normal }
        return state.withLock { state in
            let isReturning = state.retries[thread] != nil
            return isReturning || state.retries.values.contains { $0.directory == node && !$0.isLate }
                ? .none : normal
        }
    }

    private func remove(_ thread: Int32, from state: inout State) {
        if state.retries.removeValue(forKey: thread) != nil { count.subtract(1, ordering: .relaxed) }
    }
}
