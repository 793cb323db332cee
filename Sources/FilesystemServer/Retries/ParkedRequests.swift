// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Synchronization

/// Requests that wait without a thread, and what becomes of them when their requester gets a signal.
///
/// The kernel tells of one signal per request and then never again, whatever comes. So the signal is
/// looked at: one that ends the wait is answered, any other is followed by looking again every 50 ms.
final class ParkedRequests: Sendable {
    /// What to do with a request that cannot go on waiting.
    struct ParkedRequest: Sendable {
        let thread: Int32
        /// Whose share it takes up; nil for what is no open.
        var user: UInt32?
        /// One closure for all, since there is one for each request that waits.
        let leave: @Sendable (WaitEnd) -> Void
    }

    /// How a request ceases to wait.
    enum WaitEnd: Sendable {
        /// The error of this end is its answer.
        case abandoned(AbandonReason)
        /// The requester is stopped, and what it waits for would keep the freezer waiting: let it through.
        case forced
        /// The machine is about to sleep: what the policy says when the time is over. May be said more than once.
        case overdue
    }

    /// Why nobody waits for an answer any more, or may.
    enum AbandonReason: Sendable {
        case interrupted
        /// The requester is.
        case gone
        case unmounted

        var error: Errno { self == .unmounted ? .notConnected : .interrupted }
    }

    private struct State {
        var requests: [UInt: ParkedRequest] = [:]
        /// How many opens of each user wait.
        var shares: [UInt32: Int] = [:]
        var opens = 0
        /// The same of all that are neither root nor the owner.
        var guestOpens = 0
        var isClosed = false
        /// The machine sleeps or is about to: nobody may wait.
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

    /// How many opens of one user may wait. Each keeps a request of the kernel, a claim and what belongs to it, about 4 KB.
    static let share = 1024
    /// The same for all that are neither root nor the user who mounted: one user may have very many user numbers.
    static let shareOfAll = 4 * share
    /// The same for root and for the user who mounted.
    static let ownShare = 8192

    /// How often a request with a harmless signal is looked at again.
    static let interval = TimeSpan.milliseconds(50)
    /// How long after its signal a request may come to be parked.
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
    /// How many opens wait, or a little before or after; takes no lock.
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

    /// Whether more opens of a user wait than its share, or of all users that are neither root nor the owner.
    func isOverShare(_ user: UInt32) -> Bool {
        state.withLock { state in
            let count = state.shares[user] ?? 0
            if Self.isOwn(user) { return count > Self.ownShare }
            return count > Self.share || state.guestOpens > Self.shareOfAll
        }
    }

    func holds(_ token: UInt) -> Bool { state.withLock { $0.requests[token] != nil } }
    /// Whether it was still there: of those who let one request go on, or answer it, only one finds it so.
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

    /// The mount was taken away, and those who wait are told. Whoever enters afterwards must not wait.
    func close() {
        let requests = state.withLock { state in
            state.isClosed = true
            return Array(state.requests.values)
        }
        for request in requests { request.leave(.abandoned(.unmounted)) }
    }

    /// The machine is about to sleep: nobody waits any longer until ``wakeUp()``. Returns how many waited.
    func fallAsleep() -> Int {
        let tokens = state.withLock { state in
            state.isAsleep = true
            return Array(state.requests.keys)
        }
        for token in tokens { timers.runSoon { [self] in endWait(of: token) } }
        return tokens.count
    }

    func wakeUp() { state.withLock { $0.isAsleep = false } }

    /// Again as long as the request is there: it may have entered before it was settled what it waits for.
    private func endWait(of token: UInt) {
        guard let request = state.withLock({ $0.isAsleep ? $0.requests[token] : nil }) else { return }
        request.leave(.overdue)
        timers.schedule(at: (Engine.now + Self.interval).nanoseconds) { [self] in endWait(of: token) }
    }

    /// To be looked at after entering.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// May be called under libfuse's lock of the request, so it only leaves a note.
    func interrupted(_ token: UInt) {
        timers.runSoon { [self] in checkSignals(at: token, stoppedSince: nil, after: Engine.now) }
    }

    /// Looks whether a signal has come that nobody told of, and follows it up only if one has: there may be very many who wait.
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
            // The request may have been interrupted before it was parked; then its spot comes at once.
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

    /// Whether a thread is no more, or ends as soon as it has its answer.
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

    /// Somebody wants the program to end, or to come back to its prompt, handler or not.
    private static let asking = bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT)
    private static let harmless = bit(SIGCHLD) | bit(SIGURG) | bit(SIGWINCH) | bit(SIGCONT)
    private static let stopping = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU)
}

/// What keeps a requester from running, and waits for its request in turn.
enum RequesterStop: CaseIterable, Sendable {
    case stopped
    /// The freezer waits until all have come to rest, and may give up after a second. One system call can be several
    /// requests, so each has a part of that.
    case freezing

    /// Whether a request that was found to hold it up is to be let through.
    func isOver(since first: Instant, at now: Instant) -> Bool { now.since(first) >= longest }

    private var longest: TimeSpan { self == .freezing ? .milliseconds(250) : .seconds(1) }
}
