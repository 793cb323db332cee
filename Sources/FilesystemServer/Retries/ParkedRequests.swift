// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Synchronization

/// Requests that wait without a thread, and their outcome when the caller gets a signal.
///
/// The kernel reports a single signal for each request, and no later signal. So the daemon checks the signal: a signal that
/// ends the wait is answered, and after any other the daemon checks again every 50 ms.
final class ParkedRequests: Sendable {
    /// The action for a request that cannot go on waiting.
    struct ParkedRequest: Sendable {
        let thread: Int32
        /// The user for the limit of waiting opens; nil if the request is no open.
        var user: UInt32?
        /// A single closure for all ends, since each waiting request stores it.
        let leave: @Sendable (WaitEnd) -> Void
    }

    /// How a request ceases to wait.
    enum WaitEnd: Sendable {
        /// The request is answered with the error of this reason.
        case abandoned(AbandonReason)
        /// The caller is stopped, or a freezer waits for it: force the request.
        case forced
        /// The machine is about to sleep: apply the policy for the end of a wait. May be reported more than once.
        case overdue
    }

    /// Why a request does not wait for its answer any more.
    enum AbandonReason: Sendable {
        case interrupted
        /// The caller has ended, or ends as soon as it has its answer.
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
        /// The machine sleeps or is about to: no request may wait.
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

    /// How many opens of a guest may wait. Each needs a request of the kernel and a claim, about 4 KB.
    static let share = 1024
    /// How many opens of all guests may wait: a single person may have very many user numbers.
    static let shareOfAll = 4 * share
    /// How many opens may wait for root, and for the user that mounted.
    static let ownShare = 8192

    /// The time between two checks of a request with a harmless signal.
    static let interval = TimeSpan.milliseconds(50)
    /// How long after its signal a request may be parked.
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
    /// Approximately how many opens wait; takes no lock.
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

    /// How many opens of a user wait.
    func waiting(of user: UInt32) -> Int { state.withLock { $0.shares[user] ?? 0 } }

    private static func isOwn(_ user: UInt32) -> Bool { user == 0 || user == owner }
    private static let owner = OwnProcess.user

    /// Whether a user, or all guests together, have more waiting opens than their share.
    func isOverShare(_ user: UInt32) -> Bool {
        state.withLock { state in
            let count = state.shares[user] ?? 0
            if Self.isOwn(user) { return count > Self.ownShare }
            return count > Self.share || state.guestOpens > Self.shareOfAll
        }
    }

    func holds(_ token: UInt) -> Bool { state.withLock { $0.requests[token] != nil } }
    /// Returns whether the request was still parked: of several callers that continue or answer it, only one finds it.
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

    /// Ends all waits with an error, because the mount was taken away. Requests that enter afterwards must not wait.
    func close() {
        let requests = state.withLock { state in
            state.isClosed = true
            return Array(state.requests.values)
        }
        for request in requests { request.leave(.abandoned(.unmounted)) }
    }

    /// Ends all waits until ``wakeUp()``, because the machine is about to sleep. Returns how many requests waited.
    func fallAsleep() -> Int {
        let tokens = state.withLock { state in
            state.isAsleep = true
            return Array(state.requests.keys)
        }
        for token in tokens { timers.runSoon { [self] in endWait(of: token) } }
        return tokens.count
    }

    func wakeUp() { state.withLock { $0.isAsleep = false } }

    /// Repeated as long as the request is parked: it may have entered before its claim was made.
    private func endWait(of token: UInt) {
        guard let request = state.withLock({ $0.isAsleep ? $0.requests[token] : nil }) else { return }
        request.leave(.overdue)
        timers.schedule(at: (Engine.now + Self.interval).nanoseconds) { [self] in endWait(of: token) }
    }

    /// Must be checked after entering.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// May be called under libfuse's lock of the request, so it only schedules a check.
    func interrupted(_ token: UInt) {
        timers.runSoon { [self] in checkSignals(at: token, stoppedSince: nil, after: Engine.now) }
    }

    /// Checks for a signal that the kernel did not report. Checks again only if there is a signal, because very many requests
    /// may wait.
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
            // The request may have been interrupted before it was parked; then it is parked soon.
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

    /// Whether a thread has ended, or ends as soon as it has its answer.
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

    /// Signal n is bit n - 1 of the masks in `/proc/TID/status`.
    private static func bit(_ signal: CInt) -> UInt64 { 1 << UInt64(signal - 1) }

    /// These signals ask the program to end, or to return to its prompt, with a handler or without.
    private static let asking = bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT)
    private static let harmless = bit(SIGCHLD) | bit(SIGURG) | bit(SIGWINCH) | bit(SIGCONT)
    private static let stopping = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU)
}

/// Why a caller does not run, while a shell or a freezer may wait for its request.
enum RequesterStop: CaseIterable, Sendable {
    case stopped
    /// The freezer waits until all threads are frozen, and may give up after a second. A system call can be several requests,
    /// so each gets a part of that second.
    case freezing

    /// Whether a request that has delayed the stop since `first` is to be forced.
    func isOver(since first: Instant, at now: Instant) -> Bool { now.since(first) >= longest }

    private var longest: TimeSpan { self == .freezing ? .milliseconds(250) : .seconds(1) }
}
