// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Synchronization

/// Requests that were answered ESTALE, so that they wait without the directory lock that they came with.
///
/// After ESTALE the kernel drops its locks and walks the path again. The daemon has invalidated the directory's
/// attributes, so the kernel asks for them, from the same thread and with no lock held. The daemon lets *that* GETATTR
/// wait. When it is answered, the kernel sends the request again.
///
///     ESTALE ──GETATTR──▶ parked ──settled──▶ settled ──request──▶ gone
///       ├────────settled────────────────────────▲  └──late──▶ given up ──request, or later──▶ gone
///       └──request, no GETATTR──▶ gone
///
/// The thread of a retry identifies it, because a thread has only one request at a time. The kernel retries only once, so
/// the daemon never answers the same request with ESTALE twice. There is an exception: a lookup of a missing name that
/// comes again without a GETATTR is no retry.
final class RetryTable: Sendable {
    enum RetryReason: Sendable {
        /// A change of names or of a size, with its claim.
        case request(ClaimedRequest)
        /// A lookup of a name that is missing in the middle of a save. `isUnlinked` is false if the file that had the
        /// name has another name now.
        case lookup(name: [UInt8], isUnlinked: Bool)

        var request: ClaimedRequest? { if case .request(let request) = self { request } else { nil } }
    }

    struct PendingRetry: Sendable {
        let cause: RetryReason
        let directory: NodeID
        let serial: UInt64
        var isSettled = false
        /// Whether the request did not come in time, so that no other request waits for it any more.
        ///
        /// Its thread has not run, or does something else. If the request still comes, the kernel has used its retry.
        fileprivate(set) var isLate = false
        /// Whether the kernel has asked for the directory's attributes during the retry, with no lock held.
        fileprivate(set) var hasAsked = false
        /// Whether the GETATTR was answered before the wait was over. No further GETATTR is then parked.
        fileprivate var isReleased = false
        /// Whether the kernel has looked up names on the path to the directory, so that it is walking the path again.
        fileprivate var hasWalked = false
        fileprivate var getattr: Parked<ParkedGetattr>?

        func isLookup(of name: [UInt8], in directory: NodeID) -> Bool {
            guard case .lookup(name, _) = cause else { return false }
            return self.directory == directory
        }

        /// Whether the GETATTR of an open with `O_CREAT` may come while the kernel holds the directory's lock. That
        /// happens if the open's lookup came without the lock, while an unlink was removing the name.
        var mayHoldLock: Bool {
            guard case .lookup(_, isUnlinked: true) = cause else { return false }
            return !hasWalked
        }
    }

    /// A GETATTR that waits, with the number by which the kernel reports its interrupts.
    struct ParkedGetattr: ~Copyable, Sendable {
        let reply: Reply
        let token: UInt
    }

    private struct State {
        var retries: [Int32: PendingRetry] = [:]
        var nextSerial: UInt64 = 1
        var retryMarks = RetryMarks()
    }

    /// How soon a request follows the second lookup of its name, if its thread runs without a pause.
    private static let arrival = TimeSpan.milliseconds(250)
    /// How soon a request follows the second walk of its path, if its thread must wait for a processor.
    private static let walk = TimeSpan.seconds(1)

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)
    private let returnedCount = Atomic<Int>(0)

    /// Whether no retry is expected. This is read before each costly check.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }
    /// Whether no thread is retrying, so that every lookup is a first lookup.
    var isEmptyForLookups: Bool { isEmpty && returnedCount.load(ordering: .relaxed) == 0 }

    /// Notes that a thread's request is answered ESTALE.
    ///
    /// Returns the number of this retry, and the former retry of the thread if its request never came.
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

    /// Removes the retry of a request that the kernel has sent again, whether or not its wait is over.
    func takeRetry(by thread: Int32, where matches: (PendingRetry) -> Bool) -> PendingRetry? {
        guard !isEmpty else { return nil }
        return state.withLock { state in
            guard let retry = state.retries[thread], matches(retry) else { return nil }
            remove(thread, from: &state)
            return retry
        }
    }

    /// The part that a lookup plays in the retries of its thread.
    enum LookupRole: Hashable, Sendable {
        /// The lookup is no retry. If it is answered ESTALE now, the kernel sends it again.
        case first
        /// The lookup is the retry of a lookup that was answered ESTALE.
        case retry
        /// The kernel looks the name up with the directory's lock held, after a retry that found no file.
        ///
        /// The program gets the result of this lookup. So the next lookup is a first lookup again.
        case last
        /// The lookup is a step on the path of another request that was answered ESTALE.
        case traversal
    }

    /// Returns the role of a lookup that was just made, and ends the retry of the thread's lookup, if there is one.
    ///
    /// The daemon must call this after the lookup in the source. A request that takes the name away waits for this call
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
        // The kernel may also look a name up without the directory's lock while an unlink is removing the name. If that
        // lookup fails, the kernel looks again with the lock and without a GETATTR. The kernel has not used its retry
        // then.
        guard retry.hasAsked else { return .first }
        noteRetryArrival(of: caller, at: now)
        return .retry
    }

    /// Notes that a thread has looked up a name again and found no file.
    func noteMissingName(at name: [UInt8], in directory: NodeID, by caller: Caller, at now: Instant) {
        let place = RetryMarks.RetryTarget(directory: directory, name: name)
        note(.came(nothingAt: place), until: now + Self.arrival, of: caller, at: now)
    }

    /// Returns whether this is the last lookup of a name by a thread that found no file there before. Returns true only
    /// once.
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

    /// Notes that a thread has looked up a name again. The kernel has then used its only retry for the thread's next
    /// request there.
    func noteRetryArrival(of caller: Caller, at now: Instant) {
        note(.came(nothingAt: nil), until: now + Self.arrival, of: caller, at: now)
    }

    /// Notes that a thread's request is answered ESTALE, without a wait, so that the kernel walks the path again. The
    /// kernel has then used its only retry.
    func noteRetryRequest(_ caller: Caller, at now: Instant) {
        note(.isOnItsWay, until: now + Self.walk, of: caller, at: now)
    }

    /// Shortens the validity of a thread's mark, after the thread has walked the path again and found no file. The
    /// thread's request follows at once, if at all.
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

    /// Returns whether a thread's request may be answered ESTALE. It may not be during a retry, nor between the lookup of
    /// a name and the request that uses the name.
    func mayRetry(_ thread: Int32, at now: Instant) -> Bool {
        state.withLock { $0.retries[thread] == nil && !$0.retryMarks.has(thread, at: now) }
    }

    /// Returns whether the kernel has used its only retry for a thread's next request, as far as the daemon knows.
    func isRetrying(_ thread: Int32, at now: Instant) -> Bool {
        state.withLock { $0.retries[thread] != nil || $0.retryMarks.has(thread, at: now) }
    }

    /// Returns whether the kernel would not retry the present request of a thread. Call this once for each request, since
    /// it removes the mark.
    func takeRetryMark(_ thread: Int32, at moment: @autoclosure () -> Instant) -> Bool {
        guard returnedCount.load(ordering: .relaxed) > 0 else { return false }
        let now = moment()
        return state.withLock { state in
            let takeRetryMark = state.retryMarks.take(thread, at: now)
            returnedCount.store(state.retryMarks.count, ordering: .sequentiallyConsistent)
            return takeRetryMark
        }
    }

    /// Notes that the wait of a retry is over. Returns the parked GETATTR, which can be answered now.
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

    /// Returns whether the wait of a thread for a missing name is over, and the thread has not looked up the name again
    /// yet.
    func isLookupRetrying(to name: [UInt8], in directory: NodeID) -> Bool {
        guard !isEmpty else { return false }
        return state.withLock { state in
            state.retries.values.contains {
                $0.isSettled && !$0.isLate && $0.isLookup(of: name, in: directory)
            }
        }
    }

    /// Notes that the request of a retry did not come in time. Returns whether it was expected until now.
    func noteLate(_ serial: UInt64, by thread: Int32) -> Bool {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.serial == serial, !retry.isLate else {
                return false
            }
            state.retries[thread]?.isLate = true
            return true
        }
    }

    /// Removes a retry, because its request will not come, or came as another request.
    func drop(_ serial: UInt64, by thread: Int32) -> PendingRetry? {
        state.withLock { state in
            guard let retry = state.retries[thread], retry.serial == serial else { return nil }
            remove(thread, from: &state)
            return retry
        }
    }

    subscript(thread: Int32) -> PendingRetry? { state.withLock { $0.retries[thread] } }

    /// Ends the retry of a thread's lookup, or a late retry of the thread, because the thread opens a file.
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

    /// Removes and returns the parked GETATTR, to be answered before the wait is over.
    ///
    /// The kernel may hold the directory's lock for this GETATTR, and the program that the retry waits for may need the
    /// lock. The thread's next request counts as the retry, so the thread never gets ESTALE twice.
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

    /// Parks a GETATTR if its thread's retry must wait. Otherwise returns the reply.
    ///
    /// `token` was made for a parked GETATTR. It is not used if the reply is returned.
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

    /// Returns how long the kernel may cache an answer. If the kernel cached an answer during a retry, it would not send
    /// the retry's GETATTR.
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
