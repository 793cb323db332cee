// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Synchronization

/// Requests that the daemon answered ESTALE. So they wait without the directory lock that the kernel held for them.
///
/// After ESTALE the kernel drops its locks and walks the path a second time. The daemon has invalidated the directory's
/// attributes. So the kernel asks for these attributes by a GETATTR, from the same thread and with no lock held. The
/// daemon lets *that* GETATTR wait. When the daemon answers the GETATTR, the kernel sends the request again.
///
///     ESTALE ──GETATTR──▶ parked ──settled──▶ settled ──request──▶ gone
///       ├────────settled────────────────────────▲  └──late──▶ given up ──request, or later──▶ gone
///       └──request, no GETATTR──▶ gone
///
/// A retry is recognised by its thread, because a thread has only one request at a time. The kernel retries only once,
/// so the daemon never answers a request with ESTALE twice. There is one exception: a lookup of a missing name that is
/// repeated without a GETATTR is no retry.
final class RetryTable: Sendable {
    enum RetryReason: Sendable {
        /// A change of names or of a size, with its claim.
        case request(ClaimedRequest)
        /// A lookup of a name that is missing in the middle of a save.
        ///
        /// `isUnlinked`: false if the file that had the name was renamed.
        case lookup(name: [UInt8], isUnlinked: Bool)

        var request: ClaimedRequest? { if case .request(let request) = self { request } else { nil } }
    }

    struct PendingRetry: Sendable {
        let cause: RetryReason
        let directory: NodeID
        let serial: UInt64
        var isSettled = false
        /// Whether the request did not come again in time. Other requests then no longer wait for it.
        ///
        /// The request's thread was not scheduled, or is doing something else. If the request still comes, it counts as
        /// the retry.
        fileprivate(set) var isLate = false
        /// Whether the kernel has asked for the directory's attributes during the retry, with no lock held.
        fileprivate(set) var hasAsked = false
        /// Whether the GETATTR was answered before the wait was over. After that, no further GETATTR is parked.
        fileprivate var isReleased = false
        /// Whether the kernel has looked up a name on the path since ESTALE. It is then walking the path for the second
        /// time.
        fileprivate var hasWalked = false
        fileprivate var getattr: Parked<ParkedGetattr>?

        func isLookup(of name: [UInt8], in directory: NodeID) -> Bool {
            guard case .lookup(name, _) = cause else { return false }
            return self.directory == directory
        }

        /// Whether the kernel may hold the directory's lock while it sends the GETATTR of an open with `O_CREAT`. That
        /// is possible if the open's lookup came without the lock, while an unlink was removing the name.
        var mayHoldLock: Bool {
            guard case .lookup(_, isUnlinked: true) = cause else { return false }
            return !hasWalked
        }
    }

    /// A GETATTR that waits. If it is interrupted, the kernel reports `token`.
    struct ParkedGetattr: ~Copyable, Sendable {
        let reply: Reply
        let token: UInt
    }

    private struct State {
        var retries: [Int32: PendingRetry] = [:]
        var nextSerial: UInt64 = 1
        var retryMarks = RetryMarks()
    }

    /// The time between the second lookup of a name and the request that uses the name, if the thread runs without a
    /// pause.
    private static let arrival = TimeSpan.milliseconds(250)
    /// The time between ESTALE and the repeated request, if the thread must wait for a processor.
    private static let walk = TimeSpan.seconds(1)

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)
    private let returnedCount = Atomic<Int>(0)

    /// Whether no retry is expected. Each costly check is skipped if this is true.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }
    /// Whether no thread is retrying a request. If so, every lookup has the role `first`.
    var isEmptyForLookups: Bool { isEmpty && returnedCount.load(ordering: .relaxed) == 0 }

    /// Notes that a thread's request is answered ESTALE.
    ///
    /// Returns a number for the new retry. Also returns the thread's previous retry, if its request has not come again.
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

    /// Removes a retry, because the kernel has sent its request again. The wait of the retry need not be over.
    func takeRetry(by thread: Int32, where matches: (PendingRetry) -> Bool) -> PendingRetry? {
        guard !isEmpty else { return nil }
        return state.withLock { state in
            guard let retry = state.retries[thread], matches(retry) else { return nil }
            remove(thread, from: &state)
            return retry
        }
    }

    /// How a lookup is related to a retry of its thread.
    enum LookupRole: Hashable, Sendable {
        /// The lookup belongs to no retry. If the daemon answers it with ESTALE, the kernel repeats it.
        case first
        /// The lookup is the retry of a lookup that was answered ESTALE.
        case retry
        /// The lookup comes after a retry that found no file. The kernel now holds the directory's lock.
        ///
        /// The program gets the result of this lookup. The thread's next lookup has the role `first`.
        case last
        /// The lookup is a step on the path of a request that was answered ESTALE.
        case traversal
    }

    /// Returns the role of a lookup. If the lookup is a retry, ends the retry.
    ///
    /// The daemon must first look up the name in the source, and then call this. A request that takes the name away
    /// waits for this call (``isLookupRetrying(to:in:)``).
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
        // No GETATTR came. So the first lookup came without the directory's lock, while an unlink was removing the
        // name. The kernel has only repeated the lookup with the lock, and has not used its retry.
        guard retry.hasAsked else { return .first }
        noteRetryArrival(of: caller, at: now)
        return .retry
    }

    /// Notes that a thread has looked up a name for the second time, and has found no file.
    func noteMissingName(at name: [UInt8], in directory: NodeID, by caller: Caller, at now: Instant) {
        let place = RetryMarks.RetryTarget(directory: directory, name: name)
        note(.came(nothingAt: place), until: now + Self.arrival, of: caller, at: now)
    }

    /// Returns whether this lookup is the last lookup of a name in which the thread has just found no file. Returns
    /// true only once.
    private func isLastLook(at place: RetryMarks.RetryTarget, by thread: Int32, at now: Instant) -> Bool {
        state.withLock { $0.retryMarks.takeMissing(place, by: thread, at: now) }
    }

    /// Returns whether a lookup of a thread is a step on the path to another name.
    private func notePassing(of thread: Int32, at now: Instant) -> Bool {
        state.withLock { state in
            guard state.retries[thread] != nil else {
                return state.retryMarks.isOnItsWay(thread, at: now)
            }
            state.retries[thread]?.hasWalked = true
            return true
        }
    }

    /// Notes that a thread has looked up a name for the second time. The kernel then does not retry the thread's next
    /// request for this name.
    func noteRetryArrival(of caller: Caller, at now: Instant) {
        note(.came(nothingAt: nil), until: now + Self.arrival, of: caller, at: now)
    }

    /// Notes that a thread's request is answered ESTALE without a wait. The kernel then walks the path a second time,
    /// and cannot retry the request again.
    func noteRetryRequest(_ caller: Caller, at now: Instant) {
        note(.isOnItsWay, until: now + Self.walk, of: caller, at: now)
    }

    /// Makes a thread's mark expire sooner, because the thread has walked the path a second time and found no file. If
    /// the thread's request still comes, it comes very soon.
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

    /// Returns whether a thread's request may be answered ESTALE. It may not if the thread is retrying a request, or
    /// has just looked up the request's name for the second time.
    func mayRetry(_ thread: Int32, at now: Instant) -> Bool {
        state.withLock { $0.retries[thread] == nil && !$0.retryMarks.has(thread, at: now) }
    }

    /// Returns whether the kernel has used its only retry for a thread's next request, as far as the daemon knows.
    func isRetrying(_ thread: Int32, at now: Instant) -> Bool {
        state.withLock { $0.retries[thread] != nil || $0.retryMarks.has(thread, at: now) }
    }

    /// Returns whether the kernel would not retry the present request of a thread. The call removes the thread's mark, so the
    /// function must be called only once for each request.
    func takeRetryMark(_ thread: Int32, at moment: @autoclosure () -> Instant) -> Bool {
        guard returnedCount.load(ordering: .relaxed) > 0 else { return false }
        let now = moment()
        return state.withLock { state in
            let takeRetryMark = state.retryMarks.take(thread, at: now)
            returnedCount.store(state.retryMarks.count, ordering: .sequentiallyConsistent)
            return takeRetryMark
        }
    }

    /// Notes that the wait of a retry is over. Returns the parked GETATTR, which the caller must answer.
    func completeWait(_ serial: UInt64, by thread: Int32) -> Parked<ParkedGetattr>? {
        state.withLock { state in
            guard state.retries[thread]?.serial == serial else { return nil }
            state.retries[thread]?.isSettled = true
            return state.retries[thread]?.getattr.take()
        }
    }

    /// Returns the threads that wait in a lookup of a missing name in a directory, with the numbers of their retries.
    func lookups(of name: [UInt8], in directory: NodeID) -> [(thread: Int32, serial: UInt64)] {
        state.withLock { state in
            state.retries.filter { $0.value.isLookup(of: name, in: directory) }
                .map { ($0.key, $0.value.serial) }.sorted { $0.1 < $1.1 }
        }
    }

    /// Returns whether a thread has waited for a missing name, and is now about to look the name up for the second
    /// time.
    func isLookupRetrying(to name: [UInt8], in directory: NodeID) -> Bool {
        guard !isEmpty else { return false }
        return state.withLock { state in
            state.retries.values.contains {
                $0.isSettled && !$0.isLate && $0.isLookup(of: name, in: directory)
            }
        }
    }

    /// Notes that the request of a retry did not come in time. Returns false if this was noted before, or if the retry
    /// has ended.
    func noteLate(_ serial: UInt64, by thread: Int32) -> Bool {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.serial == serial, !retry.isLate else {
                return false
            }
            state.retries[thread]?.isLate = true
            return true
        }
    }

    /// Removes a retry, because its thread will not send the request again, or has sent another request.
    func drop(_ serial: UInt64, by thread: Int32) -> PendingRetry? {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.serial == serial else { return nil }
            remove(thread, from: &state)
            return retry
        }
    }

    subscript(thread: Int32) -> PendingRetry? { state.withLock { $0.retries[thread] } }

    /// Called when a thread opens a file. Ends the thread's retry if it is the retry of a lookup, or if it is late.
    func endLookup(by thread: Int32) {
        _ = takeRetry(by: thread) { if case .lookup = $0.cause { true } else { $0.isLate } }
    }

    /// Notes that a thread sends a GETATTR about a node. Returns whether that GETATTR must wait.
    func awaitsGetattr(of thread: Int32, about node: NodeID) -> Bool {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.directory == node else { return false }
            state.retries[thread]?.hasAsked = true
            return !retry.isSettled && !retry.isReleased
        }
    }

    /// Removes and returns the parked GETATTR, so that it is answered although the wait is not over.
    ///
    /// The kernel may hold the directory's lock during this GETATTR, and the program that the retry waits for may need
    /// this lock. The thread's next request counts as the retry, so the thread never gets ESTALE twice.
    func release(_ serial: UInt64, by thread: Int32) -> Parked<ParkedGetattr>? {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.serial == serial, !retry.isSettled else {
                return nil
            }
            state.retries[thread]?.isReleased = true
            return state.retries[thread]?.getattr.take()
        }
    }

    /// Removes and returns the retry and the parked GETATTR of an interrupted thread.
    func abandon(by thread: Int32) -> (PendingRetry, Parked<ParkedGetattr>)? {
        state.withLock { state in
            guard let retry = state.retries[thread], let getattr = retry.getattr else { return nil }
            remove(thread, from: &state)
            return (retry, getattr)
        }
    }

    /// Parks a GETATTR, if its thread's retry must wait. Otherwise returns the reply.
    ///
    /// `token`: the number by which the kernel reports an interrupt of the parked GETATTR. It is not used if the reply
    /// is returned.
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

    /// Returns how long the kernel may cache an answer. During a retry the kernel must cache nothing: with cached
    /// attributes, it would not send the GETATTR of the retry.
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
