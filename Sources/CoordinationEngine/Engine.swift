// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
package import LinuxSystem
import Synchronization

/// Connects the arbiter, which has no threads, with the threads of the daemon.
///
/// **Lock rule.** The mutex protects only the arbiter, the tables of the engine and the order of the journal. Effects
/// are carried out after the mutex is released, because an effect can call the engine again on the same thread. No
/// object is released under the mutex, because the release can close a file.
package final class Engine: Sendable {
    package enum Decision: Sendable { case granted(Grant), refused(Refusal, Explanation) }
    package enum Admission: Sendable { case granted(Grant), waiting }
    package typealias DecisionHandler = @Sendable (Decision) -> Void

    /// The state of a claim, from the view of its claimant.
    enum ClaimPhase {
        case waiting(since: Instant)
        case waitingWithHandler(since: Instant, DecisionHandler)
        /// The claim was granted or refused, and the claimant has not yet set a handler that receives this decision.
        case decided(Decision)
        case held
    }

    struct ClaimRecord {
        let claimant: any Claimant
        /// The moment at which the claim was granted; until then, the moment at which it was made.
        var since: Instant
        var phase: ClaimPhase
        /// The claimant of the first claim for which this claim waited.
        var blocker: (any Claimant)?
        var delayLimit = DelayLimitState.notReached
    }

    /// The treatment of a guest's reader, according to whether its user has delayed another user for too long.
    enum DelayLimitState: Sendable {
        case notReached
        /// The user of the reader is also allowed to write the file, so the reader is observed like other readers. This
        /// right is checked once more after each observation.
        case exemptAsWriter
        /// The user of the reader is not allowed to write the file. So the reader is suspended, and no other claim
        /// waits for it.
        case suspended(DelayLedger.Account)
    }

    struct State {
        var arbiter: Arbiter
        var claims: [ClaimID: ClaimRecord] = [:]
        var presenters: [PresenterID: PresenterEntry] = [:]
        var unsaved = UnsavedDocuments()
        /// N14: Limits the notices about items in the directories that guests present.
        var subitemQuota = DeliveryQuota()
        /// N15: Limits the questions and notices about the items that guests present.
        var itemQuota = DeliveryQuota()
        /// For each aware access that is about to end: the callback that is called when the handles of the access are
        /// closed. See ``whenClosed(_:tell:)``.
        var closeWaiters: [ClaimID: CloseWaiter] = [:]
        /// For each aware access, the deletions within the access that are not final yet; see ``UndecidedDeletion``.
        var undecidedDeletions: [ClaimID: [UndecidedDeletion]] = [:]
        var observations = ObservationQueue()
        /// Guests with unanswered questions. For each guest, the moment up to which its delays of other users were
        /// counted.
        var answersChargedAt: [UInt32: Instant] = [:]
        /// The effects that are not carried out yet. The array is empty between two events; it is a property so that
        /// its storage is reused.
        var effects: [Effect] = []
        /// Facts about the present event that its effects need.
        var eventContext = EventContext()
        var messageBatch = MessageBatch()
        /// The number of presenters removed since free memory was last returned to the system.
        var removed = 0
    }

    package let bounds: Bounds
    package let delays: DelayLedger
    package let counters = LiveCounters()
    /// Limits the number of log lines about deadlocks, because a program can cause deadlocks without end. The counter
    /// and the journal have all deadlocks.
    let deadlockLogLimiter = SharedLogRateLimiter(lines: 10)
    /// The user id that is used if the user of a process is unknown.
    static let unknownUser = UInt32.max
    package let journal = Journal()
    /// The runs of `truce run`, and the documents of their leases.
    package let runs: RunRegistry
    package let timers: Timers
    package let workers: WorkerPool
    package let log: @Sendable (String) -> Void
    private let state: Mutex<State>
    /// The value of ``hasAwareClients``; changed only under the lock.
    let activeClientsFlag = Atomic<Bool>(false)
    /// The value that ``isAnythingUnsaved`` reads; changed only under the lock.
    let unsavedCount = Atomic<Int>(0)
    private let nextClaim = Atomic<UInt64>(1)

    /// `log` gets one line for each long wait, and for each step that a time limit or a deadlock forces. It is called
    /// on any thread. `owner` is the owner of the mount if guests may use the mount, else nil.
    package init(
        bounds: Bounds, timers: Timers, workers: WorkerPool, sharedBy owner: UInt32? = nil,
        log: @escaping @Sendable (String) -> Void
    ) {
        self.bounds = bounds
        runs = RunRegistry(bounds)
        delays = DelayLedger(allowing: bounds.guestDelay, besides: owner)
        self.timers = timers
        self.workers = workers
        self.log = log
        state = Mutex(State(arbiter: Arbiter(bounds: bounds)))
    }

    /// Calls a closure under the lock. The closure must carry out no effect and release no object.
    @inline(__always)
    func withState<Result: ~Copyable>(_ body: (inout State) -> sending Result) -> sending Result {
        state.withLock { body(&$0) }
    }

    package static var now: Instant { Instant(nanoseconds: MonotonicClock.nanoseconds) }

    package func makeClaimID() -> ClaimID {
        ClaimID(nextClaim.wrappingAdd(1, ordering: .relaxed).oldValue)
    }

    /// Takes numbers for claims that are made later, but count as earlier than all claims with later numbers (Q1).
    func reserveClaimIDs(_ count: Int) -> Range<UInt64> {
        let added = nextClaim.wrappingAdd(UInt64(count), ordering: .relaxed)
        return added.oldValue..<added.newValue
    }

    /// Makes a claim; never blocks.
    ///
    /// If the claim waits, the caller must call ``onDecision(_:tell:)``; only in this case a closure is allocated. A
    /// claim can wait and still be granted before this method returns. The basis of the grant is then not `free`.
    ///
    /// If a run's lease covers an item of the claim, the claim of the lease is made first (D234).
    package func claim(_ request: ClaimRequest, by claimant: any Claimant) -> Admission {
        if runs.hasLeases { claimLeases(before: request, by: claimant) }
        return claimAlone(request, by: claimant)
    }

    /// Makes a claim without a look at the leases.
    @inline(__always)
    func claimAlone(_ request: ClaimRequest, by claimant: any Claimant) -> Admission {
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
        if !runs.isEmpty, request.nature != .batch, runs.passesWaits(claimant.identify()) {
            force(request.claim)
        }
        return admission(of: request.claim)
    }

    /// Makes a claim that does not wait. If the claim cannot be granted immediately, it ends. Returns whether the claim
    /// was granted.
    package func tryClaim(_ request: ClaimRequest, by claimant: any Claimant) -> Bool {
        let now = Self.now
        let (isGranted, dropped): (Bool, JournalEntry?) = state.withLock { state in
            let (grant, dropped) = begin(request, by: claimant, at: now, in: &state)
            // Ends the claim even if its grant is among effects that another thread has yet to carry out.
            if grant == nil { state.arbiter.handle(.ended(request.claim), at: now, into: &state.effects) }
            return (grant != nil, dropped)
        }
        withExtendedLifetime(dropped) {}
        if isGranted { counters.granted.count() } else { dispatch(nil) }
        return isGranted
    }

    /// Makes a claim under the lock. Returns the grant, if there is one. Also returns a step that was removed from the
    /// journal, which the caller must free after the lock is released.
    private func begin(
        _ request: ClaimRequest, by claimant: any Claimant, at now: Instant, in state: inout State
    ) -> (Grant?, JournalEntry?) {
        state.arbiter.handle(.claimed(request), at: now, into: &state.effects)
        if request.nature == .aware || request.nature == .batch {
            activeClientsFlag.store(true, ordering: .relaxed)
        }
        // If a new claim is granted immediately, the grant is usually the only effect, because no other claim is
        // affected.
        guard state.effects.count == 1, case .grant(request.claim, let grant) = state.effects[0] else {
            return (nil, nil)
        }
        state.effects.removeAll(keepingCapacity: true)
        state.claims[request.claim] = ClaimRecord(claimant: claimant, since: now, phase: .held)
        return (grant, journal.note(.granted, at: now, claim: request.claim, by: claimant))
    }

    /// Returns the state of a claim after the effects of its request were carried out.
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

    /// Sets the handler that gets the decision about a claim. The handler is called exactly once: by this method if the
    /// claim is decided already, else later, on the thread that carries out the decision.
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

    /// With at most this number of presenters and claims, the arbiter handles any event quickly.
    private static let few = 256

    /// Whether the load is so low that a thread shared by many clients is allowed to pass events to the arbiter.
    ///
    /// False while another thread has effects to carry out, because these effects can block.
    package var isLightlyLoaded: Bool {
        state.withLock { $0.effects.isEmpty && $0.presenters.count + $0.claims.count <= Self.few }
    }

    /// Ends an access. Before this call the claimant may have to preserve contents; see ``suspendedWriter(beside:)``.
    package func end(_ claim: ClaimID) { finish(endWithoutBlocking(claim)) }

    /// Ends an access on a thread that must not block. Effects that may block are left to ``finish(_:)``.
    package func endWithoutBlocking(_ claim: ClaimID) -> ClaimTeardown {
        let now = Self.now
        let ending = state.withLock { state in
            chargeDelay(by: claim, at: now, in: state)
            state.observations.cancel(claim)
            var ending = ClaimTeardown(state.claims.removeValue(forKey: claim))
            ending.closeWaiters = state.takeCloseWaiters(claim)
            // Some callers end a claim twice: before they answer the kernel, and after the answer. The second call
            // finds no claim.
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

    /// The objects and effects that are left after the end of an access. Not copyable, because nearly every request
    /// ends an access and copies would cost time.
    package struct ClaimTeardown: ~Copyable, Sendable {
        /// The record of the claim. The end of the record can close a file, so the record is freed after the lock is
        /// released.
        fileprivate let entry: ClaimRecord?
        fileprivate var step: JournalEntry?
        fileprivate var eventContext = EventContext()
        fileprivate var deferredEffects: [DeferredEffect] = []
        fileprivate var closeWaiters: [CloseWaiter] = []
        /// Whether no effects are left to carry out.
        package fileprivate(set) var isDone = true

        fileprivate init(_ entry: consuming ClaimRecord?) { self.entry = entry }
    }

    /// Ends a claim, because its caller no longer waits. If the claim was granted before this call, its access ends. If
    /// not, the decision is `refused(.withdrawn)`.
    package func withdraw(_ claim: ClaimID) {
        let isWaiting = state.withLock { state in
            switch state.claims[claim]?.phase {
            case .waiting, .waitingWithHandler: true
            case .decided, .held, nil: false
            }
        }
        // If the claim was granted after the check, this event has no effect, and `end` ends the held claim.
        if isWaiting { submit(.withdrawn(claim)) }
        end(claim)
    }

    /// Grants a claim, because its caller cannot wait any longer.
    package func force(_ claim: ClaimID) { submit(.forced(claim)) }

    /// Ends the wait of a claim, if it waits. The policy decides whether the claim is granted.
    package func endWait(of claim: ClaimID) { submit(.overdue(claim)) }

    /// Reports that the program of a handle was seen to lock its file, or is expected to lock it; see
    /// `ArbiterEvent.locked`.
    package func noteLock(of claim: ClaimID) { submit(.locked(claim)) }

    /// Reports that the program has closed a handle, and that the claim ends only after further work of the close; see
    /// `ArbiterEvent.closed`.
    package func noteClose(of claim: ClaimID) { submit(.closed(claim)) }

    /// Reports that a holder in contention has nothing to lose, so that the arbiter suspends it. The arbiter has not
    /// asked for this observation.
    package func noteNothingToLose(by claim: ClaimID) { submit(.observed(claim, .clean)) }

    /// Reports the party of a claim, although the arbiter has not asked for it.
    package func identify(_ claim: ClaimID, as party: Party) { submit(.identified(claim, party)) }

    /// Reports that a name was removed in the middle of a save; see `ArbiterEvent.vacated`.
    package func vacate(_ document: ItemID, orphan: ItemID) {
        submit(.vacated(document: document, orphan: orphan))
    }

    /// Reports that another file is the document from now on; see `ArbiterEvent.replaced`.
    package func replace(_ document: ItemID, by incoming: ItemID, orphan: ItemID?) {
        noteRestoration(of: document, or: incoming)
        submit(.replaced(document: document, incoming: incoming, orphan: orphan))
        if isAnythingUnsaved { state.withLock { $0.unsaved.move(from: incoming, to: document) } }
    }

    /// Whether the item was reported as a directory.
    package func isDirectory(_ item: ItemID) -> Bool { state.withLock { $0.arbiter.isDirectory(item) } }

    /// Whether the item was reported as a package.
    package func isPackage(_ item: ItemID) -> Bool { state.withLock { $0.arbiter.isPackage(item) } }

    /// Whether an item is a package or is inside a package.
    package func isInPackage(_ item: ItemID, at place: Place) -> Bool {
        state.withLock { $0.arbiter.isInPackage(item, at: place) }
    }

    func submit(_ event: ArbiterEvent) { dispatch(event) }

    package func hasYieldedClean(_ claim: ClaimID) -> Bool {
        state.withLock { $0.arbiter.hasYieldedClean(claim) }
    }

    /// Whether a claim is suspended for all other claims, so that not only readers but also writers no longer wait for
    /// it.
    package func letsWritersPass(_ claim: ClaimID) -> Bool {
        state.withLock { state in state.arbiter.suspension(of: claim).map { !$0.isForReaders } ?? false }
    }

    package func isSuperseded(_ claim: ClaimID) -> Bool {
        state.withLock { $0.arbiter.isSuperseded(claim) }
    }

    package func suspendedWriter(beside claim: ClaimID) -> ClaimID? {
        state.withLock { $0.arbiter.suspendedWriter(beside: claim) }
    }

    /// The claimants of the suspended writers beside a claim, at most `limit` of them.
    package func suspendedWriters(beside claim: ClaimID, atMost limit: Int) -> [any Claimant] {
        state.withLock { state in
            state.arbiter.suspendedWriters(beside: claim, atMost: limit)
                .compactMap { state.claims[$0]?.claimant }
        }
    }

    package func hasWriter(besides claim: ClaimID, and other: ClaimID?) -> Bool {
        state.withLock { $0.arbiter.hasWriter(besides: claim, and: other) }
    }

    /// Whether a claim is granted and has not ended. Its claimant may not have been told of the grant yet.
    package func isGranted(_ claim: ClaimID) -> Bool {
        state.withLock { state in
            switch state.claims[claim]?.phase {
            case .held, .decided(.granted): true
            case .decided(.refused), .waiting, .waitingWithHandler, nil: false
            }
        }
    }

    /// The claimant of a claim; nil if the claim has ended.
    package func claimant(of claim: ClaimID) -> (any Claimant)? {
        state.withLock { $0.claims[claim]?.claimant }
    }
}

extension Engine.State {
    mutating func noteBlocker(of claim: ClaimID) {
        // The stored blocker is not replaced, because a replacement could release the blocker under the lock.
        guard let index = claims.index(forKey: claim), claims.values[index].blocker == nil else { return }
        claims.values[index].blocker = blocker(of: claim)
    }

    /// The claimant of the claim for which a claim waits now.
    func blocker(of claim: ClaimID) -> (any Claimant)? {
        arbiter.blocker(of: claim).flatMap { claims[$0]?.claimant }
    }

    mutating func setPhase(_ claim: ClaimID, _ phase: Engine.ClaimPhase) {
        guard let index = claims.index(forKey: claim) else { return }
        claims.values[index].phase = phase
    }
}

extension Engine {
    /// Gives a claim to a new claimant. Called when the thread of the former claimant has sent its request once more.
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
