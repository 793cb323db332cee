// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Synchronization

/// Requests that were answered ESTALE, so that they wait without the directory lock they came under.
///
/// After ESTALE the kernel drops its locks and walks the path again. Because the directory's attributes were invalidated, it
/// asks for them, from the same thread and with no lock held. *That* GETATTR waits. Once it is answered, the request comes
/// again.
///
///     ESTALE ──GETATTR──▶ parked ──settled──▶ settled ──request──▶ gone
///       ├────────settled────────────────────────▲  └──late──▶ given up ──request, or later──▶ gone
///       └──request, no GETATTR──▶ gone
///
/// A thread identifies its retry: it has a single request at a time. The kernel retries only once, so the same request is never
/// answered ESTALE twice. The exception is a lookup of a missing name that comes again without a GETATTR: it is not a retry.
final class RetryTable: Sendable {
    enum RetryReason: Sendable {
        /// A change of a size or of names, with its claim.
        case request(ClaimedRequest)
        /// A lookup of a vacated name, which was unlinked, or else belongs to another file now.
        case lookup(name: [UInt8], isUnlinked: Bool)

        var request: ClaimedRequest? { if case .request(let request) = self { request } else { nil } }
    }

    struct PendingRetry: Sendable {
        let cause: RetryReason
        let directory: NodeID
        let serial: UInt64
        var isSettled = false
        /// The request did not come in time, and no other request waits for it any more. Its thread has not run, or does
        /// something else. If the request still comes, the kernel has used its retry.
        fileprivate(set) var isLate = false
        /// The kernel has asked about the directory during the retry, which it does without a lock.
        fileprivate(set) var hasAsked = false
        /// Its GETATTR was answered before the wait was over, and no further GETATTR is parked.
        fileprivate var isReleased = false
        /// The kernel has looked up names that lead to the directory, so it walks the path again.
        fileprivate var hasWalked = false
        fileprivate var getattr: Parked<ParkedGetattr>?

        func isLookup(of name: [UInt8], in directory: NodeID) -> Bool {
            guard case .lookup(name, _) = cause else { return false }
            return self.directory == directory
        }

        /// Whether an open that may create the file may send its GETATTR under the directory's lock. That happens if its lookup
        /// came without the lock while an unlink was removing the name.
        var mayHoldLock: Bool {
            guard case .lookup(_, isUnlinked: true) = cause else { return false }
            return !hasWalked
        }
    }

    /// A parked GETATTR with the token of its interrupts.
    struct ParkedGetattr: ~Copyable, Sendable {
        let reply: Reply
        let token: UInt
    }

    private struct State {
        var retries: [Int32: PendingRetry] = [:]
        var nextSerial: UInt64 = 1
        var retryMarks = RetryMarks()
    }

    /// How soon a request follows the second lookup of its name, if its thread runs.
    private static let arrival = TimeSpan.milliseconds(250)
    /// How soon a request follows the second walk of its path, if its thread does not run all that time.
    private static let walk = TimeSpan.seconds(1)

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)
    private let returnedCount = Atomic<Int>(0)

    /// Whether no retry is expected; the fast paths ask this.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }
    /// Whether every lookup is a first lookup.
    var isEmptyForLookups: Bool { isEmpty && returnedCount.load(ordering: .relaxed) == 0 }

    /// Notes that a thread's request is answered ESTALE. Returns the number of this retry, and the thread's former retry if its
    /// request never came.
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

    /// Removes the retry of a request that has come again, settled or not.
    func takeRetry(by thread: Int32, where matches: (PendingRetry) -> Bool) -> PendingRetry? {
        guard !isEmpty else { return nil }
        return state.withLock { state in
            guard let retry = state.retries[thread], matches(retry) else { return nil }
            remove(thread, from: &state)
            return retry
        }
    }

    /// The role of a lookup for its thread.
    enum LookupRole: Hashable, Sendable {
        /// The lookup is no retry: if it is answered ESTALE now, the kernel comes again.
        case first
        /// The retry of a lookup that was answered ESTALE.
        case retry
        /// The kernel's lookup with the directory's lock, after a retry that found nothing. Its answer reaches the program, so
        /// the next lookup is a first one.
        case last
        /// A step on the path to another request that was answered ESTALE.
        case traversal
    }

    /// Classifies a lookup that a thread has made, and ends its retry, if it has any.
    ///
    /// Must be called after the lookup: once the wait is over, a request that takes the name away waits for this call
    /// (``isLookupRetrying(to:in:)``).
    func classifyLookup(at name: [UInt8], in directory: NodeID, by caller: Caller, at now: Instant)
        -> LookupRole
    {
        let thread = caller.thread
        guard let retry = takeRetry(by: thread, where: { $0.isLookup(of: name, in: directory) }) else {
            if isLastLook(at: RetryMarks.RetryTarget(directory: directory, name: name), by: thread, at: now) {
                return .last
            }
            return notePassing(of: thread, at: now) ? .traversal : .first
        }
        // The kernel also looks a known name up without the directory's lock while an unlink is removing it. If that fails, it
        // looks again with the lock, without a GETATTR, and has not retried.
        guard retry.hasAsked else { return .first }
        noteRetryArrival(of: caller, at: now)
        return .retry
    }

    /// Notes that a thread that came back to a name has found nothing there.
    func noteMissingName(at name: [UInt8], in directory: NodeID, by caller: Caller, at now: Instant) {
        let place = RetryMarks.RetryTarget(directory: directory, name: name)
        note(.came(nothingAt: place), until: now + Self.arrival, of: caller, at: now)
    }

    /// Whether this is the last lookup by a thread that came back to a name and found nothing. True only once.
    private func isLastLook(at place: RetryMarks.RetryTarget, by thread: Int32, at now: Instant) -> Bool {
        state.withLock { $0.retryMarks.takeMissing(place, by: thread, at: now) }
    }

    /// Whether a lookup of a thread is a step to another name.
    private func notePassing(of thread: Int32, at now: Instant) -> Bool {
        state.withLock { state in
            guard state.retries[thread] != nil else {
                return state.retryMarks.isOnItsWay(thread, at: now)
            }
            state.retries[thread]?.hasWalked = true
            return true
        }
    }

    /// Notes that a thread came back to a name: the kernel's only retry is used up for its next request there.
    func noteRetryArrival(of caller: Caller, at now: Instant) {
        note(.came(nothingAt: nil), until: now + Self.arrival, of: caller, at: now)
    }

    /// Notes that a thread's request is answered ESTALE only to walk the path again: its only retry is used up.
    func noteRetryRequest(_ caller: Caller, at now: Instant) {
        note(.isOnItsWay, until: now + Self.walk, of: caller, at: now)
    }

    /// Shortens the mark of a thread that walked the path again and found nothing: its request follows at once, if at all.
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

    /// Whether a thread's request may be answered ESTALE. It may not during a retry, nor between the lookup of a name and the
    /// request that uses it.
    func mayRetry(_ thread: Int32, at now: Instant) -> Bool {
        state.withLock { $0.retries[thread] == nil && !$0.retryMarks.has(thread, at: now) }
    }

    /// Whether a thread has used the kernel's only retry for its next request, as far as is known.
    func isRetrying(_ thread: Int32, at now: Instant) -> Bool {
        state.withLock { $0.retries[thread] != nil || $0.retryMarks.has(thread, at: now) }
    }

    /// Whether the kernel would not retry the present request of a thread. Must be called once for each request.
    func takeRetryMark(_ thread: Int32, at moment: @autoclosure () -> Instant) -> Bool {
        guard returnedCount.load(ordering: .relaxed) > 0 else { return false }
        let now = moment()
        return state.withLock { state in
            let takeRetryMark = state.retryMarks.take(thread, at: now)
            returnedCount.store(state.retryMarks.count, ordering: .sequentiallyConsistent)
            return takeRetryMark
        }
    }

    /// Notes that the wait is over, and returns the GETATTR that may be answered now.
    func completeWait(_ serial: UInt64, by thread: Int32) -> Parked<ParkedGetattr>? {
        state.withLock { state in
            guard state.retries[thread]?.serial == serial else { return nil }
            state.retries[thread]?.isSettled = true
            return state.retries[thread]?.getattr.take()
        }
    }

    /// The threads that look up a vacated name of a directory, with the numbers of their retries.
    func lookups(of name: [UInt8], in directory: NodeID) -> [(thread: Int32, serial: UInt64)] {
        state.withLock { state in
            state.retries.filter { $0.value.isLookup(of: name, in: directory) }
                .map { ($0.key, $0.value.serial) }.sorted { $0.1 < $1.1 }
        }
    }

    /// Whether a thread waited for a vacated name, and has not looked it up again yet.
    func isLookupRetrying(to name: [UInt8], in directory: NodeID) -> Bool {
        guard !isEmpty else { return false }
        return state.withLock { state in
            state.retries.values.contains {
                $0.isSettled && !$0.isLate && $0.isLookup(of: name, in: directory)
            }
        }
    }

    /// Notes that the request is late. Returns whether it was expected until now.
    func noteLate(_ serial: UInt64, by thread: Int32) -> Bool {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.serial == serial, !retry.isLate else {
                return false
            }
            state.retries[thread]?.isLate = true
            return true
        }
    }

    /// Removes a retry: its request will not come, or came as another request.
    func drop(_ serial: UInt64, by thread: Int32) -> PendingRetry? {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.serial == serial else { return nil }
            remove(thread, from: &state)
            return retry
        }
    }

    subscript(thread: Int32) -> PendingRetry? { state.withLock { $0.retries[thread] } }

    /// Ends the retry of a lookup, or a late retry, because its thread opens a file.
    func endLookup(by thread: Int32) {
        _ = takeRetry(by: thread) { if case .lookup = $0.cause { true } else { $0.isLate } }
    }

    /// Notes that a thread asks for the attributes of a node. Returns whether that GETATTR is to be parked.
    func awaitsGetattr(of thread: Int32, about node: NodeID) -> Bool {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.directory == node else { return false }
            state.retries[thread]?.hasAsked = true
            return !retry.isSettled && !retry.isReleased
        }
    }

    /// Takes the GETATTR to answer it before the wait is over. It may hold the directory's lock, which the awaited program may
    /// need. The next request counts as the retry, so the caller never gets ESTALE twice.
    func release(_ serial: UInt64, by thread: Int32) -> Parked<ParkedGetattr>? {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.serial == serial, !retry.isSettled else {
                return nil
            }
            state.retries[thread]?.isReleased = true
            return state.retries[thread]?.getattr.take()
        }
    }

    /// Removes the retry and the parked GETATTR of an interrupted thread.
    func abandon(by thread: Int32) -> (PendingRetry, Parked<ParkedGetattr>)? {
        state.withLock { state in
            guard let retry = state.retries[thread], let getattr = retry.getattr else { return nil }
            remove(thread, from: &state)
            return (retry, getattr)
        }
    }

    /// Parks the GETATTR of a retrying thread until its wait is over; gives back any other.
    ///
    /// The token was made for the parked GETATTR, and is not used if the reply is given back.
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

    /// How long the kernel may cache an answer: a cached answer must not replace the GETATTR of a retry.
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
