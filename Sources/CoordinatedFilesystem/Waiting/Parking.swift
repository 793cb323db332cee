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
final class Parking: Sendable {
    /// What to do with a request that cannot go on waiting.
    struct Spot: Sendable {
        let thread: Int32
        /// One closure for all, since there is one for each request that waits.
        let leave: @Sendable (Way) -> Void
    }

    /// How a request ceases to wait.
    enum Way: Sendable {
        /// The error of this end is its answer.
        case abandoned(End)
        /// The requester is stopped, and what it waits for would keep the freezer waiting: let it through.
        case forced
    }

    /// Why nobody waits for an answer any more, or may.
    enum End: Sendable {
        case interrupted
        /// The requester is.
        case gone
        case unmounted

        var error: Errno { self == .unmounted ? .notConnected : .interrupted }
    }

    private struct State {
        var spots: [UInt: Spot] = [:]
        var isClosed = false
    }

    private enum Verdict {
        case waitOn(isStopped: Bool)
        case interrupted
        case gone
    }

    /// How often a request with a harmless signal is looked at again.
    private static let interval = Span.milliseconds(50)
    /// How long a stopped requester may wait.
    private static let longestStop = Span.seconds(1)

    private let state = Mutex(State())
    private let nextToken = Atomic<UInt>(1)
    private let timers: Timers
    private let counters: LiveCounters

    init(timers: Timers, counters: LiveCounters) {
        self.timers = timers
        self.counters = counters
    }

    func makeToken() -> UInt { nextToken.wrappingAdd(1, ordering: .relaxed).oldValue }

    var isEmpty: Bool { state.withLock { $0.spots.isEmpty } }
    func enter(_ token: UInt, _ spot: Spot) { state.withLock { $0.spots[token] = spot } }
    func holds(_ token: UInt) -> Bool { state.withLock { $0.spots[token] != nil } }
    /// Whether it was still there: of those who let one request go on, or answer it, only one finds it so.
    @discardableResult
    func leave(_ token: UInt) -> Bool { state.withLock { $0.spots.removeValue(forKey: token) != nil } }

    /// The mount was taken away, and those who wait are told. Whoever enters afterwards must not wait.
    func close() {
        let spots = state.withLock { state in
            state.isClosed = true
            return Array(state.spots.values)
        }
        for spot in spots { spot.leave(.abandoned(.unmounted)) }
    }

    /// To be looked at after entering.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// May be called under libfuse's lock of the request, so it only leaves a note.
    func interrupted(_ token: UInt) {
        timers.soon { [self] in look(at: token, stoppedSince: nil, after: Engine.now) }
    }

    /// Looks whether a signal has come that nobody told of, and follows it up only if one has: there may be very many who wait.
    func lookOnce(_ token: UInt) {
        timers.soon { [self] in
            guard let spot = state.withLock({ $0.spots[token] }),
                let status = ProcessInspection.status(ofThread: spot.thread),
                (status.pending | status.sharedPending) & ~status.blocked != 0
                    || Freezers.isFreezing(thread: spot.thread)
            else { return }
            look(at: token, stoppedSince: nil, after: Engine.now)
        }
    }

    private func look(at token: UInt, stoppedSince: Instant?, after first: Instant) {
        guard let spot = state.withLock({ $0.spots[token] }) else {
            // The request may have been interrupted before it was parked; then its spot comes at once.
            guard Engine.now.since(first) < Self.longestStop else { return }
            return lookAgain(at: token, stoppedSince: nil, after: first)
        }
        counters.identified.count()
        switch Self.verdict(on: spot.thread) {
        case .gone: spot.leave(.abandoned(.gone))
        case .interrupted: spot.leave(.abandoned(.interrupted))
        case .waitOn(let isStopped):
            let since = isStopped ? stoppedSince ?? Engine.now : nil
            if let since, Engine.now.since(since) >= Self.longestStop { return spot.leave(.forced) }
            lookAgain(at: token, stoppedSince: since, after: Engine.now)
        }
    }

    private func lookAgain(at token: UInt, stoppedSince: Instant?, after first: Instant) {
        timers.schedule(at: (Engine.now + Self.interval).nanoseconds) { [self] in
            look(at: token, stoppedSince: stoppedSince, after: first)
        }
    }

    private static func verdict(on thread: Int32) -> Verdict {
        guard let status = ProcessInspection.status(ofThread: thread) else { return .gone }
        let pending = (status.pending | status.sharedPending) & ~status.blocked
        if (status.pending | status.sharedPending) & bit(SIGKILL) != 0 { return .gone }
        if pending & asking != 0 { return .interrupted }
        let deadly = pending & ~harmless & ~stopping & ~status.caught & ~status.ignored
        guard deadly == 0 else { return .interrupted }
        return .waitOn(isStopped: pending & stopping != 0 || Freezers.isFreezing(thread: thread))
    }

    /// Signal n is bit n - 1 of the masks in `/proc/TID/status`.
    private static func bit(_ signal: CInt) -> UInt64 { 1 << UInt64(signal - 1) }

    /// Somebody wants the program to end, or to come back to its prompt, handler or not.
    private static let asking = bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT)
    private static let harmless = bit(SIGCHLD) | bit(SIGURG) | bit(SIGWINCH) | bit(SIGCONT)
    private static let stopping = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU)
}
