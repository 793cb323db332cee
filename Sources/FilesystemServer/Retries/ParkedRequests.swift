// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Synchronization

/// The requests that wait without a thread (parked requests). When a caller gets a signal, its request may have to be
/// answered.
///
/// The kernel reports only the first signal for each request. So after each report the daemon reads the thread's signals
/// itself. If one of them ends the wait, the request is answered. Otherwise the daemon reads them again every 50 ms.
final class ParkedRequests: Sendable {
    /// A request that waits, with the action that ends its wait.
    struct ParkedRequest: Sendable {
        let thread: Int32
        /// The user to which a waiting open is counted; nil if the request is no open.
        var user: UInt32?
        /// Ends the wait. There is a single closure for all reasons, because each waiting request stores it.
        let leave: @Sendable (WaitEnd) -> Void
    }

    /// The reason why a request must not wait any longer.
    enum WaitEnd: Sendable {
        /// The request is answered with the error of this reason, without its step.
        case abandoned(AbandonReason)
        /// The caller is stopped, or a freezer waits for it. The request goes ahead of the claims that it waits for.
        case forced
        /// The machine is about to sleep. The request is treated as if its longest wait was over. A single sleep may be
        /// reported more than once.
        case overdue
    }

    /// The reason why a request is answered without its step.
    enum AbandonReason: Sendable {
        case interrupted
        /// The caller has ended, or will end as soon as its request is answered.
        case gone
        case unmounted

        var error: Errno { self == .unmounted ? .notConnected : .interrupted }
    }

    private struct State {
        var requests: [UInt: ParkedRequest] = [:]
        /// The number of waiting opens of each user.
        var shares: [UInt32: Int] = [:]
        var opens = 0
        /// The number of waiting opens of all guests.
        var guestOpens = 0
        var isClosed = false
        /// Whether the machine sleeps or is about to sleep, so that no request may wait.
        var isAsleep = false

        mutating func count(_ user: UInt32?, _ change: Int) {
            guard let user else { return }
            let count = shares[user, default: 0] + change
            shares[user] = count > 0 ? count : nil
            opens += change
            if !ParkedRequests.isOwn(user) { guestOpens += change }
        }
    }

    private enum SignalVerdict {
        case waitOn(RequesterStop?)
        case interrupted
        case gone
    }

    /// How many opens of a guest may wait at once. Each takes a request of the kernel and a claim, which need about 4 KB.
    static let share = 1024
    /// How many opens of all guests together may wait at once. A single person may have very many user numbers.
    static let shareOfAll = 4 * share
    /// How many opens of root, and how many of the mount's owner, may wait at once.
    static let ownShare = 8192

    /// The time between two reads of a caller's signals, after a signal that does not end the wait.
    static let interval = TimeSpan.milliseconds(50)
    /// How long after a signal the interrupted request may begin to wait.
    private static let longestArrival = TimeSpan.seconds(1)

    private let state = Mutex(State())
    private let nextToken = Atomic<UInt>(1)
    private let opens = Atomic<Int>(0)
    private let timers: Timers
    private let counters: LiveCounters

    init(timers: Timers, counters: LiveCounters) {
        self.timers = timers
        self.counters = counters
    }

    func makeToken() -> UInt { nextToken.wrappingAdd(1, ordering: .relaxed).oldValue }

    var isEmpty: Bool { state.withLock { $0.requests.isEmpty } }
    /// The approximate number of waiting opens, read without a lock.
    var openCount: Int { opens.load(ordering: .relaxed) }
    func enter(_ token: UInt, _ request: ParkedRequest) {
        let isAsleep = state.withLock { state in
            let former = state.requests.updateValue(request, forKey: token)
            state.count(former?.user, -1)
            state.count(request.user, 1)
            noteCount(of: state)
            return state.isAsleep
        }
        if isAsleep { timers.runSoon { [self] in endWait(of: token) } }
    }

    /// Returns how many opens of a user wait.
    func waiting(of user: UInt32) -> Int { state.withLock { $0.shares[user] ?? 0 } }

    private static func isOwn(_ user: UInt32) -> Bool { user == 0 || user == owner }
    private static let owner = OwnProcess.user

    /// Returns whether a user, or all guests together, have more waiting opens than are allowed.
    func isOverShare(_ user: UInt32) -> Bool {
        state.withLock { state in
            let count = state.shares[user] ?? 0
            if Self.isOwn(user) { return count > Self.ownShare }
            return count > Self.share || state.guestOpens > Self.shareOfAll
        }
    }

    func holds(_ token: UInt) -> Bool { state.withLock { $0.requests[token] != nil } }
    /// Removes a parked request, and returns whether it was still parked.
    ///
    /// Several threads may try to continue or answer the request. Only the thread that gets true does so.
    @discardableResult
    func leave(_ token: UInt) -> Bool {
        state.withLock { state in
            guard let request = state.requests.removeValue(forKey: token) else { return false }
            state.count(request.user, -1)
            noteCount(of: state)
            return true
        }
    }

    private func noteCount(of state: borrowing State) { opens.store(state.opens, ordering: .relaxed) }

    /// Ends all waits with an error, because the mount is gone. Requests that come afterwards must not wait.
    func close() {
        let requests = state.withLock { state in
            state.isClosed = true
            return Array(state.requests.values)
        }
        for request in requests { request.leave(.abandoned(.unmounted)) }
    }

    /// Ends all waits, because the machine is about to sleep. No request may wait until ``wakeUp()``. Returns how many
    /// requests waited.
    func fallAsleep() -> Int {
        let tokens = state.withLock { state in
            state.isAsleep = true
            return Array(state.requests.keys)
        }
        for token in tokens { timers.runSoon { [self] in endWait(of: token) } }
        return tokens.count
    }

    func wakeUp() { state.withLock { $0.isAsleep = false } }

    /// Ends the wait of a request. This is repeated as long as the request is parked, because its claim may not have been
    /// made yet.
    private func endWait(of token: UInt) {
        guard let request = state.withLock({ $0.isAsleep ? $0.requests[token] : nil }) else { return }
        request.leave(.overdue)
        timers.schedule(at: (Engine.now + Self.interval).nanoseconds) { [self] in endWait(of: token) }
    }

    /// Whether the mount is gone. Check this after each call of ``enter(_:_:)``.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Schedules a check of the caller's signals, after the kernel has reported a signal. The call may come under
    /// libfuse's lock of the request, so it does no more.
    func interrupted(_ token: UInt) {
        timers.runSoon { [self] in checkSignals(at: token, stoppedSince: nil, after: Engine.now) }
    }

    /// Checks once whether the caller has a signal that the kernel did not report. The check is repeated only if there is
    /// a signal, because very many requests may wait.
    func checkSignalsOnce(_ token: UInt) {
        timers.runSoon { [self] in
            guard let request = state.withLock({ $0.requests[token] }),
                let status = ProcessInspection.status(ofThread: request.thread),
                (status.pending | status.sharedPending) & ~status.blocked != 0
                    || CgroupFreezer.isFreezing(thread: request.thread)
            else { return }
            checkSignals(at: token, stoppedSince: nil, after: Engine.now)
        }
    }

    private func checkSignals(at token: UInt, stoppedSince: Instant?, after first: Instant) {
        guard let request = state.withLock({ $0.requests[token] }) else {
            // The request may have been interrupted before it was parked. It is parked soon, so the check is repeated.
            guard Engine.now.since(first) < Self.longestArrival else { return }
            return scheduleSignalCheck(at: token, stoppedSince: nil, after: first)
        }
        counters.identified.count()
        switch Self.verdict(on: request.thread) {
        case .gone: request.leave(.abandoned(.gone))
        case .interrupted: request.leave(.abandoned(.interrupted))
        case .waitOn(let stop):
            let now = Engine.now
            let since = stop.map { _ in stoppedSince ?? now }
            if let stop, let since, stop.isOver(since: since, at: now) {
                return request.leave(.forced)
            }
            scheduleSignalCheck(at: token, stoppedSince: since, after: Engine.now)
        }
    }

    private func scheduleSignalCheck(at token: UInt, stoppedSince: Instant?, after first: Instant) {
        timers.schedule(at: (Engine.now + Self.interval).nanoseconds) { [self] in
            checkSignals(at: token, stoppedSince: stoppedSince, after: first)
        }
    }

    /// Returns whether a thread has ended, or will end as soon as its request is answered.
    static func isGone(_ thread: Int32) -> Bool {
        guard let status = ProcessInspection.status(ofThread: thread) else { return true }
        return (status.pending | status.sharedPending) & bit(SIGKILL) != 0
    }

    private static func verdict(on thread: Int32) -> SignalVerdict {
        guard let status = ProcessInspection.status(ofThread: thread) else { return .gone }
        let pending = (status.pending | status.sharedPending) & ~status.blocked
        if (status.pending | status.sharedPending) & bit(SIGKILL) != 0 { return .gone }
        if pending & asking != 0 { return .interrupted }
        let deadly = pending & ~harmless & ~stopping & ~status.caught & ~status.ignored
        guard deadly == 0 else { return .interrupted }
        if CgroupFreezer.isFreezing(thread: thread) { return .waitOn(.freezing) }
        return .waitOn(pending & stopping != 0 ? .stopped : nil)
    }

    /// Returns the bit of a signal in the masks of `/proc/TID/status`: bit n - 1 for signal n.
    private static func bit(_ signal: CInt) -> UInt64 { 1 << UInt64(signal - 1) }

    /// These signals ask a program to end or to return to its prompt. They end the wait whether or not the program has a
    /// handler for them.
    private static let asking = bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT)
    private static let harmless = bit(SIGCHLD) | bit(SIGURG) | bit(SIGWINCH) | bit(SIGCONT)
    private static let stopping = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU)
}

/// The reason why a caller is to stop running, while a shell or a freezer may wait for the caller's request.
enum RequesterStop: CaseIterable, Sendable {
    case stopped
    /// A control group is being frozen. The freezer waits until all its threads are frozen, and may give up after a
    /// second.
    ///
    /// A system call can consist of several requests, so each request may delay the freezer for only a part of that
    /// second.
    case freezing

    /// Returns whether a request that has delayed the stop since `first` must go ahead now.
    func isOver(since first: Instant, at now: Instant) -> Bool { now.since(first) >= longest }

    private var longest: TimeSpan { self == .freezing ? .milliseconds(250) : .seconds(1) }
}
