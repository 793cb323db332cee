// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
package import LinuxSystem
import Synchronization

/// The one place where the arbiter meets threads.
///
/// **Lock rule.** The mutex covers the arbiter, the table of claims and the order of the journal, and
/// nothing else. Effects run after it is released, because answering the kernel or looking at a process
/// can come back here on the same thread. Nothing is let go of under it either: a claimant may own the last
/// reference to a file.
package final class Engine: Sendable {
    package enum Decision: Sendable { case granted(Grant), refused(Refusal, Explanation) }
    package enum Admission: Sendable { case granted(Grant), waiting }
    package typealias DecisionHandler = @Sendable (Decision) -> Void

    /// Where a claim stands, as far as the claimant has to be told.
    enum ClaimPhase {
        case waiting(since: Instant)
        case waitingWithHandler(since: Instant, DecisionHandler)
        /// Decided before the claimant said whom to tell.
        case decided(Decision)
        case held
    }

    struct ClaimRecord {
        let claimant: any Claimant
        /// When it was made, or granted.
        var since: Instant
        var phase: ClaimPhase
        /// Whom it waited for first.
        var blocker: (any Claimant)?
        var delayLimit = DelayLimitState.notReached
    }

    /// What becomes of a guest's reader when its user has made another one wait long enough.
    enum DelayLimitState: Sendable {
        case notReached
        /// Its user may write the file as well, so it is looked at like all others; and then asked for its rights again.
        case exemptAsWriter
        /// It lets others pass.
        case suspended(DelayLedger.Account)
    }

    struct State {
        var arbiter: Arbiter
        var claims: [ClaimID: ClaimRecord] = [:]
        var presenters: [PresenterID: PresenterEntry] = [:]
        var unsaved = UnsavedDocuments()
        /// Of names below what guests' presenters show (N14).
        var subitemQuota = DeliveryQuota()
        /// Of what they show, and of requests (N15).
        var itemQuota = DeliveryQuota()
        /// By the access that is to end; see ``whenClosed(_:tell:)``.
        var closeWaiters: [ClaimID: CloseWaiter] = [:]
        /// By the access within which they happened; see ``UndecidedDeletion``.
        var undecidedDeletions: [ClaimID: [UndecidedDeletion]] = [:]
        var observations = ObservationQueue()
        /// Guests whose answers are waited for, and when it was counted last for how long.
        var answersChargedAt: [UInt32: Instant] = [:]
        /// Empty between two events; kept for its storage.
        var effects: [Effect] = []
        /// Of the event that is being handled.
        var eventContext = EventContext()
        var messageBatch = MessageBatch()
        /// How many presenters were removed since memory was given back for them.
        var removed = 0
    }

    package let bounds: Bounds
    package let delays: DelayLedger
    package let counters = LiveCounters()
    /// Programs may run into each other again and again, and on purpose; the counter and the journal have all of it.
    let deadlockLogLimiter = Mutex(LogRateLimiter(lines: 10))
    /// Of whom it is not known which user's it is.
    static let unknownUser = UInt32.max
    package let journal = Journal()
    package let timers: Timers
    package let workers: WorkerPool
    package let log: @Sendable (String) -> Void
    let state: Mutex<State>
    /// See ``hasAwareClients``; written under the lock.
    let activeClientsFlag = Atomic<Bool>(false)
    /// See ``isAnythingUnsaved``; written under the lock.
    let unsavedCount = Atomic<Int>(0)
    private let nextClaim = Atomic<UInt64>(1)

    /// `log` gets one line for every long wait and every forced step; it is called on any thread. `owner` is the mount's, if other users
    /// than that one and root may use it.
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

    package static var now: Instant { Instant(nanoseconds: MonotonicClock.nanoseconds) }

    package func makeClaimID() -> ClaimID {
        ClaimID(nextClaim.wrappingAdd(1, ordering: .relaxed).oldValue)
    }

    /// Asks for access without ever blocking.
    ///
    /// If the claim waits, ``onDecision(_:tell:)`` must follow. The two are apart so that the
    /// closure, and whatever it keeps alive, is made only for those that wait. A claim may have waited, and presenters may
    /// have answered it, before this returns: the basis of its grant is `free` only if it never waited.
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

    /// Asks for access if it is to be had at once. If not, nothing is left of it: it does not wait, and no presenter is asked.
    package func tryClaim(_ request: ClaimRequest, by claimant: any Claimant) -> Bool {
        let now = Self.now
        let (isGranted, dropped): (Bool, JournalEntry?) = state.withLock { state in
            let (grant, dropped) = begin(request, by: claimant, at: now, in: &state)
            // It may be granted all the same, and waits to be told behind what another thread has still to carry out.
            if grant == nil { state.arbiter.handle(.ended(request.claim), at: now, into: &state.effects) }
            return (grant != nil, dropped)
        }
        withExtendedLifetime(dropped) {}
        if isGranted { counters.granted.count() } else { dispatch(nil) }
        return isGranted
    }

    /// The grant, if there is one, and a step that leaves the journal, to be let go of after the lock.
    private func begin(
        _ request: ClaimRequest, by claimant: any Claimant, at now: Instant, in state: inout State
    ) -> (Grant?, JournalEntry?) {
        state.arbiter.handle(.claimed(request), at: now, into: &state.effects)
        if request.nature == .aware || request.nature == .batch {
            activeClientsFlag.store(true, ordering: .relaxed)
        }
        // The normal case: one effect, the grant. A new claim is the last in its queue, so nothing
        // else can follow from it.
        guard state.effects.count == 1, case .grant(request.claim, let grant) = state.effects[0] else {
            return (nil, nil)
        }
        state.effects.removeAll(keepingCapacity: true)
        state.claims[request.claim] = ClaimRecord(claimant: claimant, since: now, phase: .held)
        return (grant, journal.note(.granted, at: now, claim: request.claim, by: claimant))
    }

    /// What became of a claim while its first effects were carried out.
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

    /// `outcome` runs exactly once: at once if the claim was decided meanwhile, otherwise on
    /// whichever thread decides it.
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

    /// How many presenters and claims there may be for one event to be handled in a moment, whatever it is.
    private static let few = 256

    /// Whether so little is going on that a thread which serves many may hand events to the arbiter.
    ///
    /// Not while another thread has still to carry out what was decided: that may block.
    package var isLightlyLoaded: Bool {
        state.withLock { $0.effects.isEmpty && $0.presenters.count + $0.claims.count <= Self.few }
    }

    /// The access is over. What the claimant must do before, see ``suspendedWriter(beside:)``.
    package func end(_ claim: ClaimID) { finish(endWithoutBlocking(claim)) }

    /// The same for a thread that must not block: what may block, ``finish(_:)`` does elsewhere.
    package func endWithoutBlocking(_ claim: ClaimID) -> ClaimTeardown {
        let now = Self.now
        let ending = state.withLock { state in
            chargeDelay(by: claim, at: now, in: state)
            state.observations.cancel(claim)
            var ending = ClaimTeardown(state.claims.removeValue(forKey: claim))
            ending.closeWaiters = state.takeCloseWaiters(claim)
            // Whoever ends a claim before it answers ends it again when all is done.
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

    /// Does what follows from the end of an access, and lets go of what was kept for it.
    package func finish(_ ending: borrowing ClaimTeardown) {
        if !ending.isDone { dispatch(nil) }
    }

    /// What is left of an access that is over; moved and never copied, since nearly every request ends one.
    package struct ClaimTeardown: ~Copyable, Sendable {
        /// May own a file's last reference, as may the others.
        fileprivate let entry: ClaimRecord?
        fileprivate var step: JournalEntry?
        fileprivate var eventContext = EventContext()
        fileprivate var deferredEffects: [DeferredEffect] = []
        fileprivate var closeWaiters: [CloseWaiter] = []
        /// Whether nothing follows from it that others wait for.
        package fileprivate(set) var isDone = true

        fileprivate init(_ entry: consuming ClaimRecord?) { self.entry = entry }
    }

    /// The claimant no longer waits. If the grant was faster the access is over at once; otherwise the
    /// outcome is told `refused(.withdrawn)`.
    package func withdraw(_ claim: ClaimID) {
        let isWaiting = state.withLock { state in
            switch state.claims[claim]?.phase {
            case .waiting, .waitingWithHandler: true
            case .decided, .held, nil: false
            }
        }
        // Between the two a grant may come; the second event then finds a claim that is held.
        if isWaiting { submit(.withdrawn(claim)) }
        end(claim)
    }

    /// The claimant cannot wait any longer and is let through.
    package func force(_ claim: ClaimID) { submit(.forced(claim)) }

    /// The wait of a claim is over, if it waits: the policy says what becomes of it.
    package func endWait(of claim: ClaimID) { submit(.overdue(claim)) }

    /// The program of a handle was seen to lock its file, or is expected to; see `ArbiterEvent.locked`.
    package func noteLock(of claim: ClaimID) { submit(.locked(claim)) }

    /// A contested holder was looked at, unasked, and others may change its file: it has nothing to lose.
    package func noteNothingToLose(by claim: ClaimID) { submit(.observed(claim, .clean)) }

    /// Says who made a claim, unasked.
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

    /// Whether an item was placed as a directory that is one file to its user.
    package func isPackage(_ item: ItemID) -> Bool { state.withLock { $0.arbiter.isPackage(item) } }

    /// Whether a directory, or one above it, is one file to its user.
    package func isInPackage(_ item: ItemID, at place: Place) -> Bool {
        state.withLock { $0.arbiter.isInPackage(item, at: place) }
    }

    func submit(_ event: ArbiterEvent) { dispatch(event) }

    package func hasYieldedClean(_ claim: ClaimID) -> Bool {
        state.withLock { $0.arbiter.hasYieldedClean(claim) }
    }

    /// Whether a claim is suspended so that writers pass it, too.
    package func letsWritersPass(_ claim: ClaimID) -> Bool {
        state.withLock { state in state.arbiter.suspension(of: claim).map { !$0.isForReaders } ?? false }
    }

    package func isSuperseded(_ claim: ClaimID) -> Bool {
        state.withLock { $0.arbiter.isSuperseded(claim) }
    }

    package func suspendedWriter(beside claim: ClaimID) -> ClaimID? {
        state.withLock { $0.arbiter.suspendedWriter(beside: claim) }
    }

    /// The objects behind so many of them at most.
    package func suspendedWriters(beside claim: ClaimID, atMost limit: Int) -> [any Claimant] {
        state.withLock { state in
            state.arbiter.suspendedWriters(beside: claim, atMost: limit)
                .compactMap { state.claims[$0]?.claimant }
        }
    }

    package func hasWriter(besides claim: ClaimID, and other: ClaimID?) -> Bool {
        state.withLock { $0.arbiter.hasWriter(besides: claim, and: other) }
    }

    /// Whether a claim is granted and has not ended; whoever made it may not have been told yet.
    package func isGranted(_ claim: ClaimID) -> Bool {
        state.withLock { state in
            switch state.claims[claim]?.phase {
            case .held, .decided(.granted): true
            case .decided(.refused), .waiting, .waitingWithHandler, nil: false
            }
        }
    }

    /// Who stands behind a claim that is still alive.
    package func claimant(of claim: ClaimID) -> (any Claimant)? {
        state.withLock { $0.claims[claim]?.claimant }
    }
}

extension Engine.State {
    mutating func noteBlocker(of claim: ClaimID) {
        // The first one stays: to replace it might be to let go of it.
        guard let index = claims.index(forKey: claim), claims.values[index].blocker == nil else { return }
        claims.values[index].blocker = blocker(of: claim)
    }

    /// Whom a claim waits for now.
    func blocker(of claim: ClaimID) -> (any Claimant)? {
        arbiter.blocker(of: claim).flatMap { claims[$0]?.claimant }
    }

    mutating func setPhase(_ claim: ClaimID, _ phase: Engine.ClaimPhase) {
        guard let index = claims.index(forKey: claim) else { return }
        claims.values[index].phase = phase
    }
}

extension Engine {
    /// Another object stands behind a claim from now on: its thread came back with a new request.
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
