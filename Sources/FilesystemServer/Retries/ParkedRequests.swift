// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Synchronization

/// The requests that wait without occupying a thread (parked requests). When the program of such a request gets a
/// signal, the wait may have to end.
///
/// The kernel reports only the first signal during each request. So after this report the daemon itself reads the
/// thread's signals every 50 ms. If one of the signals ends the wait, the daemon answers the request.
final class ParkedRequests: Sendable {
    /// A request that waits, with the action that ends its wait.
    struct ParkedRequest: Sendable {
        let thread: Int32
        /// If the request is an open, the user that it is counted for; otherwise nil.
        var user: UInt32?
        /// Ends the wait for any reason. Each waiting request stores only this closure, to save memory.
        let leave: @Sendable (WaitEnd) -> Void
    }

    /// The reason why a request must not wait any longer.
    enum WaitEnd: Sendable {
        /// The request is answered with an error that depends on the reason. The operation is not carried out.
        case abandoned(AbandonReason)
        /// The program is to be stopped or frozen. The program's request goes ahead of the claims that the request waits for.
        case forced
        /// The machine is about to sleep. The request is treated as if its longest allowed wait were over. This reason may be
        /// given several times for the same sleep.
        case overdue
    }

    /// The reason why a request is answered with an error, without its operation.
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

    /// How many opens of a guest may wait at the same time. A waiting open needs about 4 KB for the kernel's request
    /// and the claim.
    static let share = 1024
    /// How many opens of all guests together may wait at the same time. This limit exists because a single person may
    /// have very many user numbers.
    static let shareOfAll = 4 * share
    /// How many opens of root may wait at the same time. The mount's owner has a limit of the same size.
    static let ownShare = 8192

    /// The time between two reads of a thread's signals, after a signal that does not end the wait.
    static let interval = TimeSpan.milliseconds(50)
    /// A request may be interrupted before it is parked. The constant says how long after the interrupt the daemon
    /// still waits until the request is parked.
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
    /// The number of waiting opens. It is read without a lock, so it may be slightly out of date.
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
    /// Removes a parked request. Returns false if another thread has already removed it.
    ///
    /// Several threads may try to continue or answer the same request. Only the thread that gets true does so.
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

    /// Ends all waits with an error, because the mount is gone. Later requests must not wait.
    func close() {
        let requests = state.withLock { state in
            state.isClosed = true
            return Array(state.requests.values)
        }
        for request in requests { request.leave(.abandoned(.unmounted)) }
    }

    /// Ends all waits, because the machine is about to sleep. No request may wait until ``wakeUp()`` is called. Returns
    /// how many requests were waiting.
    func fallAsleep() -> Int {
        let tokens = state.withLock { state in
            state.isAsleep = true
            return Array(state.requests.keys)
        }
        for token in tokens { timers.runSoon { [self] in endWait(of: token) } }
        return tokens.count
    }

    func wakeUp() { state.withLock { $0.isAsleep = false } }

    /// Ends the wait of a request. If the request's claim does not exist yet, the wait cannot end. So the attempt is repeated
    /// as long as the request is parked.
    private func endWait(of token: UInt) {
        guard let request = state.withLock({ $0.isAsleep ? $0.requests[token] : nil }) else { return }
        request.leave(.overdue)
        timers.schedule(at: (Engine.now + Self.interval).nanoseconds) { [self] in endWait(of: token) }
    }

    /// Whether the mount is gone. A caller of ``enter(_:_:)`` must check this after the call.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Called when the kernel has reported a signal for a request. The caller may have locked the request in libfuse,
    /// so this only schedules a check of the signals.
    func interrupted(_ token: UInt) {
        timers.runSoon { [self] in checkSignals(at: token, stoppedSince: nil, after: Engine.now) }
    }

    /// Checks once whether the request's thread has a signal that the kernel did not report. Only if it has one, more
    /// checks follow: very many requests may wait, and constant checks of all would be slow.
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
            // The request was interrupted before it was parked. It will be parked soon, so the check is repeated.
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

    /// These signals ask a program to end or to return to its prompt. They end the wait even if the program handles
    /// them.
    private static let asking = bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT)
    private static let harmless = bit(SIGCHLD) | bit(SIGURG) | bit(SIGWINCH) | bit(SIGCONT)
    private static let stopping = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU)
}

/// The reason why a thread must stop running soon. A shell or a freezer may be waiting for this.
enum RequesterStop: CaseIterable, Sendable {
    case stopped
    /// A control group is being frozen. The freezer waits until all threads of the group are frozen, and may give up
    /// after a second.
    ///
    /// A system call can consist of several requests. So a single request may delay the freezer for only a part of the
    /// second.
    case freezing

    /// Returns whether a request must end its wait. `first` is the time since which the wait has delayed the stop.
    func isOver(since first: Instant, at now: Instant) -> Bool { now.since(first) >= longest }

    private var longest: TimeSpan { self == .freezing ? .milliseconds(250) : .seconds(1) }
}
