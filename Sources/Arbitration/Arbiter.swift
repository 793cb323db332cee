// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// Decides who may access which item now.
///
/// A value: no clock, no lock, no I/O. The same events in the same order always produce the same effects,
/// so a failing run is reproduced by its events alone. The rules it follows are numbered in <doc:Rules>.
public struct Arbiter: Sendable {
    let bounds: Bounds
    let limits: WorkLimits
    var claims: [ClaimID: Claim] = [:]
    var lockQueues: [Resource: LockQueue] = [:]
    var tree = DirectoryTree()
    /// How many live claims stake the contents of each directory to write (S4).
    var subtreeLocks: [ItemID: SubtreeLock] = [:]

    // Only claims that meet others have entries in what follows.
    var waits: [ClaimID: WaitRecord] = [:]
    var watchers: [ClaimID: [ClaimID]] = [:]
    var contentions = ContentionTable()
    /// Where others wait for holders.
    var resourceContentions: [Resource: ResourceContention] = [:]
    var holdCounts = HoldCounts()
    /// What very many wait for (Q5).
    var overlongQueues: Set<Resource> = []
    /// What very many hold (Y11).
    var holderGroups: [Resource: HolderGroups] = [:]
    var parties: [ClaimID: Party] = [:]
    var partyNumbers = PartyNumbers()
    var holderFamilies = ProcessFamilyIndex()
    /// Presenters, and what is going on with them; empty for nearly everybody.
    var registry = PresenterRegistry()
    /// Live claims of nature `aware`, the only ones that name changes wait for.
    var aware: Set<ClaimID> = []
    /// Live claims of nature `batch`, which stake nothing and so are in no docket.
    var batches: Set<ClaimID> = []
    /// Waiting claims by the claims they were made within (D1).
    var nestedWaiters: [ClaimID: [ClaimID]] = [:]
    /// Live claims by the questions they were made to answer (D1).
    var answering: [QuestionID: [ClaimID]] = [:]
    /// Waiting claims on which holders hang or have hung (D2).
    var dependencyTargets: Set<ClaimID> = []
    /// Waiting claims whose makers must be known because of presenters alone.
    var waitersToIdentify: Set<ClaimID> = []
    var waiterFamilies = ProcessFamilyIndex()
    /// Waiting changes of names, which few pass (Q3).
    var waitingNameChanges: Set<ClaimID> = []
    /// Waiting claims by the symbolic links that they resolve (S7).
    var waitersByLink: [ItemID: Set<ClaimID>] = [:]
    var cycleSchedule = CycleSearchSchedule()
    let workCounter = WorkCounter()

    var timers = TimerQueue()
    /// The moments asked for that have not come yet, each earlier than the one before (T3).
    var requestedWakes: [Instant] = []
    var nextRequestedWake: Instant? { requestedWakes.last }
    var now = Instant(nanoseconds: 0)

    /// How often presenters heard of something since this was taken, by the share to which that counts.
    var subitemEventCounts: [UInt32: Int] = [:]
    /// The same of what they show themselves: what they were asked and told, and the turns that were kept for them.
    var ownEventCounts: [UInt32: Int] = [:]
    /// The same, of the event at hand alone.
    var ownEventCountsOfEvent: [UInt32: Int] = [:]

    /// Claims that the last event had refused, and what they waited for.
    var lastWaits: [ClaimID: LastWait] = [:]

    // What the event at hand has left to do; empty between events.
    /// What claims have been moved to or from: whoever stakes it is looked at again, once a step (R3).
    var resourcesToReview: Set<Resource> = []
    /// Waiting claims that may have nothing in their way any more.
    var grantCandidates: [ClaimID] = []
    /// Holders whose contest may have begun or ended.
    var contentionToReview: [ClaimID] = []
    /// Identified holders that may hold up somebody whom they did not before.
    var newHolders: [ClaimID] = []
    /// Waiting claims through which a cycle may lead that did not before (D2).
    var cycleCandidates: [ClaimID] = []

    /// Where another holder may come to be contested, because one went or one more waits (Y11).
    var contentionSlots: Set<Resource> = []
    /// Of holders that a claim which has just begun to wait may contest, that claim.
    var newWaiters: [ClaimID: ClaimID] = [:]

    public init(bounds: Bounds, limits: WorkLimits = WorkLimits()) {
        self.bounds = bounds
        self.limits = limits
    }

    public mutating func handle(_ event: ArbiterEvent, at now: Instant, into effects: inout [Effect]) {
        // T4: time never runs backwards.
        if now > self.now { self.now = now }
        if !lastWaits.isEmpty { lastWaits = [:] }
        if !ownEventCountsOfEvent.isEmpty { ownEventCountsOfEvent.removeAll(keepingCapacity: true) }
        switch event {
        case .claimed(let request):
            if grantUncontended(request, &effects) { return } else { claim(request, &effects) }
        case .ended(let claim): if endUncontended(claim) { return } else { end(claim, &effects) }
        case .identified(let claim, let party): identify(claim, as: party)
        case .observed(let claim, let observation): observe(claim, observation, &effects)
        case .locked(let claim): noteLock(of: claim)
        case .withdrawn(let claim): withdraw(claim, &effects)
        case .forced(let claim): force(claim, &effects)
        case .overdue(let claim): endWait(of: claim, &effects)
        case .vacated(let document, let orphan): vacate(document, orphan)
        case .replaced(let document, let incoming, let orphan): replace(document, incoming, orphan)
        case .placed(let item, let directory): place(item, directory)
        case .forgotten(let item): tree.forget(item)
        case .relinked(let link, let target, let place): follow(link, to: target, place, &effects)
        case .presented(let presenter): present(presenter)
        case .shown(let presenter, let item, let place): show(presenter, item, place)
        case .removed(let presenter): removePresenter(presenter)
        case .paused(let presenters): pause(presenters)
        case .resumed(let presenters, let behind, let told):
            resume(presenters, behind: behind, told: told, &effects)
        case .muted(let presenters): mute(presenters)
        case .unmuted(let presenters): unmute(presenters, &effects)
        case .answered(let question, let presenter, let reply):
            answer(question, by: presenter, reply, &effects)
        case .progressed(let question): progress(question)
        case .hurried(let question, let span): hurry(question, to: span)
        case .changed(let item, let place, let cause, let claim, let stamp):
            noteChange(of: item, at: place, cause, under: claim, stamp: stamp, &effects)
        case .written(let item, let place, let cause, let claim, let stamp):
            noteChange(of: item, at: place, cause, under: claim, stamp: stamp, isOngoing: true, &effects)
        case .created(let item, let place, let party, let claim):
            noteCreation(of: item, at: place, by: parties[claim] ?? party, under: claim, &effects)
        case .moved(let item, let move, let party, let claim):
            self.move(item, move, &effects)
            noteMove(of: item, move, by: parties[claim] ?? party, under: claim, &effects)
        case .deleted(let item, let place, let party, let claim):
            noteDeletion(of: item, at: place, by: parties[claim] ?? party, under: claim, &effects)
        case .lost(let item, let place, let party): noteLoss(of: item, at: place, by: party, &effects)
        case .tick: tick(&effects)
        }
        processPendingWork(&effects)
        requestWake(&effects)
        assert(claims.count > Self.checkedClaims || checkInvariants())
    }

    /// How many claims were looked at since there is an arbiter: whether they stand in another's way, wait still, have a contest, or
    /// are in a cycle.
    public var examinedClaims: Int { workCounter.count }

    /// How many things were looked at for cycles in the last second in which any were (D5).
    public var searchSteps: Int { cycleSchedule.steps }

    /// How often presenters have heard of a name below them, by the share to which that counts; counts anew from now on.
    public mutating func takeSubitemEventCounts() -> [UInt32: Int] {
        if subitemEventCounts.isEmpty { return [:] }
        defer { subitemEventCounts = [:] }
        return subitemEventCounts
    }

    /// The same of what they show themselves, and of what they were asked.
    public mutating func takeOwnEventCounts() -> [UInt32: Int] {
        if ownEventCounts.isEmpty { return [:] }
        defer { ownEventCounts = [:] }
        return ownEventCounts
    }

    /// So little of one event counts to no share: it costs the user that caused it no more than the event itself. Another user
    /// could have a guest muted by what it does often, else.
    private static let attentionsForNothing = 16

    mutating func countOwnEvent(of presenter: PresenterRecord) {
        guard let guest = presenter.presenter.guest else { return }
        ownEventCountsOfEvent[guest, default: 0] += 1
        let count = ownEventCountsOfEvent[guest] ?? 0
        guard count > Self.attentionsForNothing else { return }
        // The first ones of such an event count as well.
        ownEventCounts[guest, default: 0] += count == Self.attentionsForNothing + 1 ? count : 1
    }

    /// One of those that a claim waits for (Q1); nil if there is none.
    public func blocker(of claim: ClaimID) -> ClaimID? { waits[claim]?.watched }

    /// Whether a claim lets others pass because nothing had changed under it (Y3, Y9).
    public func hasYieldedClean(_ claim: ClaimID) -> Bool {
        claims[claim].map { $0.isClean || $0.suspension == .unchanged } ?? false
    }

    /// The oldest write claim of somebody else on an item this claim writes that is suspended, or that this claim went over: the
    /// contents this claim leaves must be kept before it ends.
    public func suspendedWriter(beside claim: ClaimID) -> ClaimID? {
        // Y8.
        let hasProceeded = claims[claim]?.hasProceeded ?? false
        return oldestWriter(beside: claim) { $0.suspension != nil || hasProceeded && $0.isBounded }
    }

    /// So many of those at most, sorted: of a crowd some are enough.
    public func suspendedWriters(beside claim: ClaimID, atMost limit: Int) -> [ClaimID] {
        guard let own = claims[claim] else { return [] }
        var found: Set<ClaimID> = []
        own.forEachPart { part in
            guard part.access.isWrite, let lockQueue = lockQueues[.item(part.item)] else { return }
            _ = lockQueue.held.writers.firstStranger(of: own.partyNumber) { id in
                guard found.count < limit else { return true }
                guard id != claim, let other = claims[id],
                    other.suspension != nil || own.hasProceeded && other.isBounded, !areExempt(own, other)
                else { return false }
                found.insert(id)
                return false
            }
        }
        return found.sorted()
    }

    /// Whether others than these write an item that a claim writes and may have changed it (Y9).
    public func hasWriter(besides claim: ClaimID, and other: ClaimID?) -> Bool {
        claims[claim]?.firstOfParts { part in
            guard part.access.isWrite, let lockQueue = lockQueues[.item(part.item)] else { return nil }
            let writer = lockQueue.held.writers.firstStranger(of: 0) { id in
                guard id != claim, id != other, let writer = claims[id] else { return false }
                return writer.isBounded && !hasYieldedClean(id)
            }
            return writer.map { _ in true }
        } ?? false
    }

    /// Whether somebody else was given the item after this claim let others pass, or went over it: what its handle still
    /// writes goes over that writer's contents (Y8).
    public func isSuperseded(_ claim: ClaimID) -> Bool {
        guard let own = claims[claim] else { return false }
        // One that came later and has changed the file has contents of its own also when it lets others pass in its turn.
        return oldestWriter(beside: claim) { other in
            own.suspension != nil && (other.suspension == nil || other.id > own.id && !other.isClean)
                || other.hasProceeded
        } != nil
    }

    private func oldestWriter(beside claim: ClaimID, where matches: (Claim) -> Bool) -> ClaimID? {
        guard let claim = claims[claim] else { return nil }
        var oldest: ClaimID?
        claim.forEachPart { part in
            guard part.access.isWrite, let lockQueue = lockQueues[.item(part.item)] else { return }
            let found = lockQueue.held.writers.firstStranger(of: claim.partyNumber) { id in
                guard id != claim.id, let other = claims[id] else { return false }
                return matches(other) && !areExempt(claim, other)
            }
            if let found { oldest = min(found, oldest ?? found) }
        }
        return oldest
    }
}

extension [ClaimID: Party] {
    /// Whose claim it is, if it is anybody's and known.
    subscript(claim: ClaimID?) -> Party? { claim.flatMap { self[$0] } }
}
