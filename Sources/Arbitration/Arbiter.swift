// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// Decides who may access which item now.
///
/// A value: no clock, no lock, no I/O. The same events in the same order always produce the same effects,
/// so a failing run is reproduced by its events alone. The rules it follows are numbered in <doc:Rules>.
public struct Arbiter: Sendable {
    let bounds: Bounds
    let crowd: Crowd
    var claims: [ClaimID: Claim] = [:]
    var dockets: [Resource: Docket] = [:]
    var tree = Tree()
    /// How many live claims stake the contents of each directory to write (S4).
    var disputed: [ItemID: Dispute] = [:]

    // Only claims that meet others have entries in what follows.
    var waits: [ClaimID: Wait] = [:]
    var watchers: [ClaimID: [ClaimID]] = [:]
    var contests = Contests()
    /// Where others wait for holders.
    var standoffs: [Resource: Standoff] = [:]
    var strongholds = Strongholds()
    /// What very many wait for (Q5).
    var crowded: Set<Resource> = []
    /// What very many hold (Y11).
    var throngs: [Resource: Throng] = [:]
    var parties: [ClaimID: Party] = [:]
    var kinships = Kinships()
    var holderKinship = Kinship()
    /// Presenters, and what is going on with them; empty for nearly everybody.
    var desk = PresenterDesk()
    /// Live claims of nature `aware`, the only ones that name changes wait for.
    var aware: Set<ClaimID> = []
    /// Live claims of nature `batch`, which stake nothing and so are in no docket.
    var batches: Set<ClaimID> = []
    /// Waiting claims by the claims they were made within (D1).
    var nested: [ClaimID: [ClaimID]] = [:]
    /// Live claims by the questions they were made to answer (D1).
    var answering: [QuestionID: [ClaimID]] = [:]
    /// Waiting claims on which holders hang or have hung (D2).
    var hungOn: Set<ClaimID> = []
    /// Waiting claims whose makers must be known because of presenters alone.
    var unnamed: Set<ClaimID> = []
    var waiterKinship = Kinship()
    /// Waiting changes of names, which few pass (Q3).
    var waitingNameChanges: Set<ClaimID> = []
    /// Waiting claims by the symbolic links that they resolve (S7).
    var resolving: [ItemID: Set<ClaimID>] = [:]
    var cycleWatch = CycleWatch()
    let counter = Looks()

    var alarms = Alarms()
    /// The moments asked for that have not come yet, each earlier than the one before (T3).
    var wakesAskedFor: [Instant] = []
    var wakeAskedFor: Instant? { wakesAskedFor.last }
    var now = Instant(nanoseconds: 0)

    /// How often presenters heard of something since this was taken, by the share to which that counts.
    var hearings: [UInt32: Int] = [:]
    /// The same of what they show themselves: what they were asked and told, and the turns that were kept for them.
    var attentions: [UInt32: Int] = [:]
    /// The same, of the event at hand alone.
    var attentionsNow: [UInt32: Int] = [:]

    /// Claims that the last event had refused, and what they waited for.
    var refused: [ClaimID: LastWait] = [:]

    // What the event at hand has left to do; empty between events.
    /// What claims have been moved to or from: whoever stakes it is looked at again, once a step (R3).
    var touched: Set<Resource> = []
    /// Waiting claims that may have nothing in their way any more.
    var unsettled: [ClaimID] = []
    /// Holders whose contest may have begun or ended.
    var shaken: [ClaimID] = []
    /// Identified holders that may hold up somebody whom they did not before.
    var newHolders: [ClaimID] = []
    /// Waiting claims through which a cycle may lead that did not before (D2).
    var suspects: [ClaimID] = []

    /// Where another holder may come to be contested, because one went or one more waits (Y11).
    var vacancies: Set<Resource> = []
    /// Of holders that a claim which has just begun to wait may contest, that claim.
    var challengers: [ClaimID: ClaimID] = [:]

    public init(bounds: Bounds, crowd: Crowd = Crowd()) {
        self.bounds = bounds
        self.crowd = crowd
    }

    public mutating func handle(_ event: Event, at now: Instant, into effects: inout [Effect]) {
        // T4: time never runs backwards.
        if now > self.now { self.now = now }
        if !refused.isEmpty { refused = [:] }
        if !attentionsNow.isEmpty { attentionsNow.removeAll(keepingCapacity: true) }
        switch event {
        case .claimed(let request):
            if claimAlone(request, &effects) { return } else { claim(request, &effects) }
        case .ended(let claim): if endAlone(claim) { return } else { end(claim, &effects) }
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
            noteChange(of: item, at: place, cause, under: claim, stamp: stamp, isGoingOn: true, &effects)
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
        settle(&effects)
        askForWake(&effects)
        assert(claims.count > Self.checkedClaims || checkInvariants())
    }

    /// How many claims were looked at since there is an arbiter: whether they stand in another's way, wait still, have a contest, or
    /// are in a cycle.
    public var looks: Int { counter.count }

    /// How many things were looked at for cycles in the last second in which any were (D5).
    public var stepsOfSearch: Int { cycleWatch.steps }

    /// How often presenters have heard of a name below them, by the share to which that counts; counts anew from now on.
    public mutating func takeHearings() -> [UInt32: Int] {
        if hearings.isEmpty { return [:] }
        defer { hearings = [:] }
        return hearings
    }

    /// The same of what they show themselves, and of what they were asked.
    public mutating func takeAttentions() -> [UInt32: Int] {
        if attentions.isEmpty { return [:] }
        defer { attentions = [:] }
        return attentions
    }

    /// So little of one event counts to no share: it costs the user that caused it no more than the event itself. Another user
    /// could have a guest muted by what it does often, else.
    private static let attentionsForNothing = 16

    mutating func countAttention(of presenter: PresenterRecord) {
        guard let share = presenter.presenter.share else { return }
        attentionsNow[share, default: 0] += 1
        let count = attentionsNow[share] ?? 0
        guard count > Self.attentionsForNothing else { return }
        // The first ones of such an event count as well.
        attentions[share, default: 0] += count == Self.attentionsForNothing + 1 ? count : 1
    }

    /// One of those that a claim waits for (Q1); nil if there is none.
    public func obstacle(of claim: ClaimID) -> ClaimID? { waits[claim]?.watched }

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
            guard part.access.isWrite, let docket = dockets[.item(part.item)] else { return }
            _ = docket.held.writers.firstStranger(of: own.kin) { id in
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
            guard part.access.isWrite, let docket = dockets[.item(part.item)] else { return nil }
            let writer = docket.held.writers.firstStranger(of: 0) { id in
                guard id != claim, id != other, let writer = claims[id] else { return false }
                return writer.isBounded && !hasYieldedClean(id)
            }
            return writer.map { _ in true }
        } ?? false
    }

    /// Whether somebody else was given the item after this claim let others pass, or went over it: what its handle still
    /// writes goes over that writer's contents (Y8).
    public func isOverruled(_ claim: ClaimID) -> Bool {
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
            guard part.access.isWrite, let docket = dockets[.item(part.item)] else { return }
            let found = docket.held.writers.firstStranger(of: claim.kin) { id in
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
