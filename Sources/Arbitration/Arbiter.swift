// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// Decides which claims are held, which presenters are asked, and which events are sent.
///
/// A value type without clock, lock or I/O. The same events in the same order always produce the same effects, so the
/// events of a failing run are enough to repeat the failure. <doc:Rules> numbers the rules that the arbiter follows.
///
/// Each part of the state is a value of a type of its own, called the owner. Only the owner changes the part, and the
/// owner's comment states the invariants of the part. No owner calls another owner. The extensions of the arbiter read
/// several owners, decide, and call methods of the owners:
///
///     event ──▶ begin ──▶ owners change, and add to the agenda
///                 ┌──────────────┘
///                 ▼
///        next step of the agenda ──▶ effects, and more of the same ──▶ … ──▶ agenda empty
public struct Arbiter: Sendable {
    let bounds: Bounds
    let limits: WorkLimits

    // If a claim's item has no other claim, only `claims` and `locks` have entries of the claim.
    var claims = ClaimTable()
    var locks = LockTable()

    var tree = DirectoryTree()
    var families = ProcessFamilies()
    var registry = PresenterRegistry()
    var waits = WaitQueue()
    var contentions = ContentionTable()
    var waitForGraph = WaitForGraph()

    var agenda = Agenda()
    var clock = Clock()
    var now: Instant { clock.now }
    let workCounter = WorkCounter()

    public init(bounds: Bounds, limits: WorkLimits = WorkLimits()) {
        self.bounds = bounds
        self.limits = limits
    }

    public mutating func handle(_ event: ArbiterEvent, at now: Instant, into effects: inout [Effect]) {
        clock.advance(to: now)
        waits.forgetRefusals()
        registry.eventCounts.beginEvent()
        switch event {
        case .claimed(let request): if grantUncontended(request, &effects) { return }
        case .ended(let claim): if endUncontended(claim) { return }
        default: break
        }
        begin(event, &effects)
        processPendingWork(&effects)
        requestWake(&effects)
        assert(claims.count > Self.checkedClaims || checkInvariants())
    }

    /// Runs the first step of an event, which adds further steps to the agenda.
    ///
    /// Not inlined, so that the code for a claim without competing claims stays small and fast.
    @inline(never)
    private mutating func begin(_ event: ArbiterEvent, _ effects: inout [Effect]) {
        switch event {
        case .claimed(let request): claim(request, &effects)
        case .ended(let claim): end(claim, &effects)
        case .identified(let claim, let party): identify(claim, as: party)
        case .observed(let claim, let observation): observe(claim, observation, &effects)
        case .locked(let claim): noteLock(of: claim)
        case .closed(let claim): noteClose(of: claim)
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
            noteCreation(of: item, at: place, by: families.party(of: claim) ?? party, under: claim, &effects)
        case .moved(let item, let move, let party, let claim):
            self.move(item, move, &effects)
            noteMove(of: item, move, by: families.party(of: claim) ?? party, under: claim, &effects)
        case .deleted(let item, let place, let party, let claim):
            noteDeletion(of: item, at: place, by: families.party(of: claim) ?? party, under: claim, &effects)
        case .lost(let item, let place, let party): noteLoss(of: item, at: place, by: party, &effects)
        case .versioned(let item, let place, let change, let cause):
            noteVersion(change, of: item, at: place, cause, &effects)
        case .tick: tick(&effects)
        }
    }

    /// How many times this arbiter has checked a claim: for a blocker, a grant or a contention, or in a search for
    /// cycles.
    public var examinedClaims: Int { workCounter.count }

    /// D5: The number of steps that searches for cycles took in the last second in which a search ran.
    public var searchSteps: Int { waitForGraph.schedule.steps }

    /// Returns how many events about items in presented directories were sent to the presenters of each guest. Resets
    /// the numbers to zero.
    public mutating func takeSubitemEventCounts() -> [UInt32: Int] {
        registry.eventCounts.takeSubitemEvents()
    }

    /// Returns how many questions and events about the presented items themselves were sent to the presenters of each
    /// guest. Resets the numbers to zero.
    public mutating func takeOwnEventCounts() -> [UInt32: Int] {
        registry.eventCounts.takeItemEvents()
    }

    /// Q1: One claim that a waiting claim waits for; nil if the claim waits for none.
    public func blocker(of claim: ClaimID) -> ClaimID? { waits[claim]?.watched }

    /// Y3, Y9: Whether a suspended claim had changed nothing in the file when it was suspended.
    public func hasYieldedClean(_ claim: ClaimID) -> Bool {
        claims[claim].map { $0.isClean || $0.suspension == .unchanged } ?? false
    }

    /// The oldest write claim of another program on an item of `claim`. Only claims that are suspended, or that `claim`
    /// has preempted, are considered.
    ///
    /// The other program can still overwrite the item. So the contents that `claim` has written must be preserved
    /// before `claim` ends.
    public func suspendedWriter(beside claim: ClaimID) -> ClaimID? {
        // Y8: A suspended or preempted writer can still write, and the daemon can notice such a write too late.
        let hasProceeded = claims[claim]?.hasProceeded ?? false
        return oldestWriter(beside: claim) { $0.suspension != nil || hasProceeded && $0.isBounded }
    }

    /// The suspended or preempted writers of ``suspendedWriter(beside:)``, at most `limit` of them, in the order of
    /// their numbers.
    public func suspendedWriters(beside claim: ClaimID, atMost limit: Int) -> [ClaimID] {
        guard let own = claims[claim] else { return [] }
        var found: Set<ClaimID> = []
        own.forEachPart { part in
            guard part.access.isWrite, let lockQueue = locks[.item(part.item)] else { return }
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

    /// Y9: Whether a third claim, which is neither `claim` nor `other`, writes an item that `claim` writes, and may
    /// have changed the item.
    public func hasWriter(besides claim: ClaimID, and other: ClaimID?) -> Bool {
        claims[claim]?.firstOfParts { part in
            guard part.access.isWrite, let lockQueue = locks[.item(part.item)] else { return nil }
            let writer = lockQueue.held.writers.firstStranger(of: 0) { id in
                guard id != claim, id != other, let writer = claims[id] else { return false }
                return writer.isBounded && !hasYieldedClean(id)
            }
            return writer.map { _ in true }
        } ?? false
    }

    /// Y8: Whether another program was granted the item after the suspension of `claim`, or has preempted `claim`.
    ///
    /// If so, a later write by the handle of `claim` overwrites what the other program has written.
    public func isSuperseded(_ claim: ClaimID) -> Bool {
        guard let own = claims[claim] else { return false }
        // A later claim that has changed the file counts even if it is suspended: the file has the contents that the
        // later claim's program wrote.
        return oldestWriter(beside: claim) { other in
            own.suspension != nil && (other.suspension == nil || other.id > own.id && !other.isClean)
                || other.hasProceeded
        } != nil
    }

    private func oldestWriter(beside claim: ClaimID, where matches: (Claim) -> Bool) -> ClaimID? {
        guard let claim = claims[claim] else { return nil }
        var oldest: ClaimID?
        claim.forEachPart { part in
            guard part.access.isWrite, let lockQueue = locks[.item(part.item)] else { return }
            let found = lockQueue.held.writers.firstStranger(of: claim.partyNumber) { id in
                guard id != claim.id, let other = claims[id] else { return false }
                return matches(other) && !areExempt(claim, other)
            }
            if let found { oldest = min(found, oldest ?? found) }
        }
        return oldest
    }
}
