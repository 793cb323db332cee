// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
package import LinuxSystem
import Synchronization

/// Connects the arbiter, which has no threads, with the threads of the daemon.
///
/// **Lock rule.** The mutex covers the arbiter, the engine's tables and the order of the journal, and nothing else.
/// Effects run after it is released, because an answer to the kernel or a lookup in `/proc` can return here on the
/// same thread. No object is released under it: a claimant may own the last reference to a file.
package final class Engine: Sendable {
    package enum Decision: Sendable { case granted(Grant), refused(Refusal, Explanation) }
    package enum Admission: Sendable { case granted(Grant), waiting }
    package typealias DecisionHandler = @Sendable (Decision) -> Void

    /// The state of a claim, as far as the claimant must be told.
    enum ClaimPhase {
        case waiting(since: Instant)
        case waitingWithHandler(since: Instant, DecisionHandler)
        /// Decided before the claimant has set a handler.
        case decided(Decision)
        case held
    }

    struct ClaimRecord {
        let claimant: any Claimant
        /// When the claim was made, or granted.
        var since: Instant
        var phase: ClaimPhase
        /// The first blocker of the claim.
        var blocker: (any Claimant)?
        var delayLimit = DelayLimitState.notReached
    }

    /// The treatment of a guest's reader when its user has made another user wait for too long.
    enum DelayLimitState: Sendable {
        case notReached
        /// Its user may also write the file, so it is observed like other readers. Its rights are checked again after
        /// that.
        case exemptAsWriter
        /// Other claims do not wait for it.
        case suspended(DelayLedger.Account)
    }

    struct State {
        var arbiter: Arbiter
        var claims: [ClaimID: ClaimRecord] = [:]
        var presenters: [PresenterID: PresenterEntry] = [:]
        var unsaved = UnsavedDocuments()
        /// For notices about subitems of guests' presenters (N14).
        var subitemQuota = DeliveryQuota()
        /// For questions, and notices about their own items (N15).
        var itemQuota = DeliveryQuota()
        /// By the access that is to end; see ``whenClosed(_:tell:)``.
        var closeWaiters: [ClaimID: CloseWaiter] = [:]
        /// By the access within which they happened; see ``UndecidedDeletion``.
        var undecidedDeletions: [ClaimID: [UndecidedDeletion]] = [:]
        var observations = ObservationQueue()
        /// Guests that have not answered, and when the delay was last counted.
        var answersChargedAt: [UInt32: Instant] = [:]
        /// Empty between two events; a property so that its storage is reused.
        var effects: [Effect] = []
        /// The context of the current event.
        var eventContext = EventContext()
        var messageBatch = MessageBatch()
        /// The number of presenters removed since memory was last given back.
        var removed = 0
    }

    package let bounds: Bounds
    package let delays: DelayLedger
    package let counters = LiveCounters()
    /// Limits log lines: programs may cause deadlocks again and again, also on purpose. The counter and the journal
    /// have all of them.
    let deadlockLogLimiter = SharedLogRateLimiter(lines: 10)
    /// User id used when the owner of a process is unknown.
    static let unknownUser = UInt32.max
    package let journal = Journal()
    package let timers: Timers
    package let workers: WorkerPool
    package let log: @Sendable (String) -> Void
    private let state: Mutex<State>
    /// See ``hasAwareClients``; written under the lock.
    let activeClientsFlag = Atomic<Bool>(false)
    /// See ``isAnythingUnsaved``; written under the lock.
    let unsavedCount = Atomic<Int>(0)
    private let nextClaim = Atomic<UInt64>(1)

    /// `log` gets one line for every long wait and every forced step; it is called on any thread. `owner` is the
    /// owner of a mount that guests may use.
    package init(
        bounds: Bounds, timers: Timers, workers: WorkerPool, sharedBy owner: UInt32? = nil,
        log: @escaping @Sendable (String) -> Void
    ) {
        self.bounds = bounds
        delays = DelayLedger(allowing: bounds.guestDelay, besides: owner)
        self.timers = timers
        self.workers = workers
        self.log = log
        state = Mutex(State(arbiter: Arbiter(bounds: bounds)))
    }

    /// Runs a closure under the lock, for the engine's other files. No effect runs in it, and it releases no object.
    @inline(__always)
    func withState<Result: ~Copyable>(_ body: (inout State) -> sending Result) -> sending Result {
        state.withLock { body(&$0) }
    }

    package static var now: Instant { Instant(nanoseconds: MonotonicClock.nanoseconds) }

    package func makeClaimID() -> ClaimID {
        ClaimID(nextClaim.wrappingAdd(1, ordering: .relaxed).oldValue)
    }

    /// Asks for access; never blocks.
    ///
    /// If the claim waits, ``onDecision(_:tell:)`` must follow. The calls are separate so that only claims that wait
    /// allocate the closure. A claim may wait and be granted before this returns, even after questions to presenters.
    /// So the basis of a grant is `free` only if the claim never waited.
    package func claim(_ request: ClaimRequest, by claimant: any Claimant) -> Admission {
        let now = Self.now
        let (grant, dropped): (Grant?, JournalEntry?) = state.withLock { state in
            let (grant, dropped) = begin(request, by: claimant, at: now, in: &state)
            if grant == nil {
                state.claims[request.claim] = ClaimRecord(
                    claimant: claimant, since: now, phase: .waiting(since: now))
            }
            return (grant, dropped)
        }
        withExtendedLifetime(dropped) {}
        if let grant {
            counters.granted.count()
            return .granted(grant)
        }
        dispatch(nil)
        return admission(of: request.claim)
    }

    /// Asks for access without a wait. If it is not granted at once, the claim ends, and no presenter is asked.
    package func tryClaim(_ request: ClaimRequest, by claimant: any Claimant) -> Bool {
        let now = Self.now
        let (isGranted, dropped): (Bool, JournalEntry?) = state.withLock { state in
            let (grant, dropped) = begin(request, by: claimant, at: now, in: &state)
            // The grant may exist already, behind effects that another thread has not carried out yet. It is given
            // up, too.
            if grant == nil { state.arbiter.handle(.ended(request.claim), at: now, into: &state.effects) }
            return (grant != nil, dropped)
        }
        withExtendedLifetime(dropped) {}
        if isGranted { counters.granted.count() } else { dispatch(nil) }
        return isGranted
    }

    /// Returns the grant, if there is one, and a step that leaves the journal, to be released after the lock.
    private func begin(
        _ request: ClaimRequest, by claimant: any Claimant, at now: Instant, in state: inout State
    ) -> (Grant?, JournalEntry?) {
        state.arbiter.handle(.claimed(request), at: now, into: &state.effects)
        if request.nature == .aware || request.nature == .batch {
            activeClientsFlag.store(true, ordering: .relaxed)
        }
        // The normal case: one effect, the grant. A new claim is the last in its queue, so there are no other
        // effects.
        guard state.effects.count == 1, case .grant(request.claim, let grant) = state.effects[0] else {
            return (nil, nil)
        }
        state.effects.removeAll(keepingCapacity: true)
        state.claims[request.claim] = ClaimRecord(claimant: claimant, since: now, phase: .held)
        return (grant, journal.note(.granted, at: now, claim: request.claim, by: claimant))
    }

    /// The state of a claim after its first effects were carried out.
    private func admission(of claim: ClaimID) -> Admission {
        let admission: Admission = state.withLock { state in
            guard case .decided(.granted(let grant)) = state.claims[claim]?.phase else {
                state.noteBlocker(of: claim)
                return .waiting
            }
            state.setPhase(claim, .held)
            return .granted(grant)
        }
        if case .waiting = admission { counters.waited.count() }
        return admission
    }

    /// Sets the handler of a decision. It runs exactly once: at once if the claim is already decided, otherwise on
    /// the thread that decides it.
    package func onDecision(_ claim: ClaimID, tell outcome: @escaping DecisionHandler) {
        let (decision, former): (Decision?, ClaimRecord?) = state.withLock { state in
            guard let entry = state.claims[claim] else { return (.refused(.withdrawn, Explanation()), nil) }
            switch entry.phase {
            case .decided(let decision):
                if case .granted = decision {
                    state.setPhase(claim, .held)
                } else {
                    state.claims[claim] = nil
                }
                return (decision, entry)
            case .waiting(let since):
                state.setPhase(claim, .waitingWithHandler(since: since, outcome))
                return (nil, entry)
            case .held, .waitingWithHandler: preconditionFailure("\(claim) is told of once")
            }
        }
        withExtendedLifetime(former) {}
        if let decision { outcome(decision.told) }
    }

    /// With at most this many presenters and claims, any event is handled quickly.
    private static let few = 256

    /// Whether the load is so low that a thread that serves many clients may hand events to the arbiter.
    ///
    /// False while another thread still has to carry out effects, as these may block.
    package var isLightlyLoaded: Bool {
        state.withLock { $0.effects.isEmpty && $0.presenters.count + $0.claims.count <= Self.few }
    }

    /// Ends an access. For the duty of the claimant before this call, see ``suspendedWriter(beside:)``.
    package func end(_ claim: ClaimID) { finish(endWithoutBlocking(claim)) }

    /// The same for a thread that must not block: effects that may block are left to ``finish(_:)``.
    package func endWithoutBlocking(_ claim: ClaimID) -> ClaimTeardown {
        let now = Self.now
        let ending = state.withLock { state in
            chargeDelay(by: claim, at: now, in: state)
            state.observations.cancel(claim)
            var ending = ClaimTeardown(state.claims.removeValue(forKey: claim))
            ending.closeWaiters = state.takeCloseWaiters(claim)
            // The claim may have been ended already: some callers end it before their answer, and again after it.
            guard let entry = ending.entry else { return ending }
            ending.step = journal.note(.ended, at: now, claim: claim, by: entry.claimant)
            state.decideDeletions(within: claim, at: now)
            state.arbiter.handle(.ended(claim), at: now, into: &state.effects)
            activeClientsFlag.store(state.arbiter.hasAwareClients, ordering: .relaxed)
            if state.effects.isEmpty { return ending }
            ending.isDone = state.effects.allSatisfy(\.neverBlocks)
            guard ending.isDone else { return ending }
            ending.deferredEffects = takeDeferredEffects(at: now, in: &state)
            ending.eventContext = state.eventContext.end()
            return ending
        }
        run(ending.deferredEffects)
        for closing in ending.closeWaiters { closing.tell() }
        return ending
    }

    /// Carries out the remaining effects of the end of an access, and releases its objects.
    package func finish(_ ending: borrowing ClaimTeardown) {
        if !ending.isDone { dispatch(nil) }
    }

    /// The remains of an ended access; never copied for speed, since nearly every request ends an access.
    package struct ClaimTeardown: ~Copyable, Sendable {
        /// May own a file's last reference, like the other properties.
        fileprivate let entry: ClaimRecord?
        fileprivate var step: JournalEntry?
        fileprivate var eventContext = EventContext()
        fileprivate var deferredEffects: [DeferredEffect] = []
        fileprivate var closeWaiters: [CloseWaiter] = []
        /// Whether no effects remain.
        package fileprivate(set) var isDone = true

        fileprivate init(_ entry: consuming ClaimRecord?) { self.entry = entry }
    }

    /// Ends a claim, because the caller no longer waits. If it was granted meanwhile, the access ends at once.
    /// Otherwise the decision is `refused(.withdrawn)`.
    package func withdraw(_ claim: ClaimID) {
        let isWaiting = state.withLock { state in
            switch state.claims[claim]?.phase {
            case .waiting, .waitingWithHandler: true
            case .decided, .held, nil: false
            }
        }
        // A grant may come between the two; then the second event ends a held claim.
        if isWaiting { submit(.withdrawn(claim)) }
        end(claim)
    }

    /// Grants a claim, because its caller cannot wait any longer.
    package func force(_ claim: ClaimID) { submit(.forced(claim)) }

    /// Ends the wait of a claim, if it waits: the policy decides the outcome.
    package func endWait(of claim: ClaimID) { submit(.overdue(claim)) }

    /// The program of a handle was observed to lock its file, or is expected to; see `ArbiterEvent.locked`.
    package func noteLock(of claim: ClaimID) { submit(.locked(claim)) }

    /// Reports, without a request of the arbiter, that a holder in contention has nothing to lose. Others may change
    /// its file.
    package func noteNothingToLose(by claim: ClaimID) { submit(.observed(claim, .clean)) }

    /// Reports the party of a claim, without a request of the arbiter.
    package func identify(_ claim: ClaimID, as party: Party) { submit(.identified(claim, party)) }

    /// A name was vacated in the middle of a save; see `ArbiterEvent.vacated`.
    package func vacate(_ document: ItemID, orphan: ItemID) {
        submit(.vacated(document: document, orphan: orphan))
    }

    /// Another file is the document from now on; see `ArbiterEvent.replaced`.
    package func replace(_ document: ItemID, by incoming: ItemID, orphan: ItemID?) {
        noteRestoration(of: document, or: incoming)
        submit(.replaced(document: document, incoming: incoming, orphan: orphan))
        if isAnythingUnsaved { state.withLock { $0.unsaved.move(from: incoming, to: document) } }
    }

    /// Whether an item was placed as a directory.
    package func isDirectory(_ item: ItemID) -> Bool { state.withLock { $0.arbiter.isDirectory(item) } }

    /// Whether an item was placed as a package.
    package func isPackage(_ item: ItemID) -> Bool { state.withLock { $0.arbiter.isPackage(item) } }

    /// Whether a directory, or one above it, is a package.
    package func isInPackage(_ item: ItemID, at place: Place) -> Bool {
        state.withLock { $0.arbiter.isInPackage(item, at: place) }
    }

    func submit(_ event: ArbiterEvent) { dispatch(event) }

    package func hasYieldedClean(_ claim: ClaimID) -> Bool {
        state.withLock { $0.arbiter.hasYieldedClean(claim) }
    }

    /// Whether a claim is suspended for writers, too.
    package func letsWritersPass(_ claim: ClaimID) -> Bool {
        state.withLock { state in state.arbiter.suspension(of: claim).map { !$0.isForReaders } ?? false }
    }

    package func isSuperseded(_ claim: ClaimID) -> Bool {
        state.withLock { $0.arbiter.isSuperseded(claim) }
    }

    package func suspendedWriter(beside claim: ClaimID) -> ClaimID? {
        state.withLock { $0.arbiter.suspendedWriter(beside: claim) }
    }

    /// The claimants of up to `limit` suspended writers.
    package func suspendedWriters(beside claim: ClaimID, atMost limit: Int) -> [any Claimant] {
        state.withLock { state in
            state.arbiter.suspendedWriters(beside: claim, atMost: limit)
                .compactMap { state.claims[$0]?.claimant }
        }
    }

    package func hasWriter(besides claim: ClaimID, and other: ClaimID?) -> Bool {
        state.withLock { $0.arbiter.hasWriter(besides: claim, and: other) }
    }

    /// Whether a claim is granted and has not ended; its claimant may not have been told yet.
    package func isGranted(_ claim: ClaimID) -> Bool {
        state.withLock { state in
            switch state.claims[claim]?.phase {
            case .held, .decided(.granted): true
            case .decided(.refused), .waiting, .waitingWithHandler, nil: false
            }
        }
    }

    /// The claimant of a claim that has not ended.
    package func claimant(of claim: ClaimID) -> (any Claimant)? {
        state.withLock { $0.claims[claim]?.claimant }
    }
}

extension Engine.State {
    mutating func noteBlocker(of claim: ClaimID) {
        // The first blocker stays: a replacement could release its last reference under the lock.
        guard let index = claims.index(forKey: claim), claims.values[index].blocker == nil else { return }
        claims.values[index].blocker = blocker(of: claim)
    }

    /// The claimant that a claim waits for now.
    func blocker(of claim: ClaimID) -> (any Claimant)? {
        arbiter.blocker(of: claim).flatMap { claims[$0]?.claimant }
    }

    mutating func setPhase(_ claim: ClaimID, _ phase: Engine.ClaimPhase) {
        guard let index = claims.index(forKey: claim) else { return }
        claims.values[index].phase = phase
    }
}

extension Engine {
    /// Replaces the claimant of a claim: its thread has made the request again.
    package func replaceClaimant(of claim: ClaimID, by claimant: any Claimant) {
        let former: ClaimRecord? = state.withLock { state in
            guard let former = state.claims[claim] else { return nil }
            state.claims[claim] = ClaimRecord(
                claimant: claimant, since: former.since, phase: former.phase, blocker: former.blocker,
                delayLimit: former.delayLimit)
            return former
        }
        withExtendedLifetime(former) {}
    }
}
