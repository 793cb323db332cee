// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// Decides who may access which item now.
///
/// A value: no clock, no lock, no I/O. The same events in the same order always produce the same effects,
/// so a failing run is reproduced by its events alone. The rules it follows are numbered in <doc:Rules>.
public struct Arbiter: Sendable {
    let bounds: Bounds
    var claims: [ClaimID: Claim] = [:]
    var dockets: [Resource: Docket] = [:]
    var tree = Tree()
    /// How many live claims stake the contents of each directory to write (S4).
    var disputed: [ItemID: Dispute] = [:]

    // Only claims that meet others have entries in what follows.
    var waits: [ClaimID: Wait] = [:]
    var watchers: [ClaimID: [ClaimID]] = [:]
    var contests = Contests()
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

    var alarms = Alarms()
    var wakeAskedFor: Instant?
    var now = Instant(nanoseconds: 0)

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

    public init(bounds: Bounds) { self.bounds = bounds }

    public mutating func handle(_ event: Event, at now: Instant, into effects: inout [Effect]) {
        // T4: time never runs backwards.
        if now > self.now { self.now = now }
        if !refused.isEmpty { refused = [:] }
        switch event {
        case .claimed(let request):
            if claimAlone(request, &effects) { return } else { claim(request, &effects) }
        case .ended(let claim): if endAlone(claim) { return } else { end(claim, &effects) }
        case .identified(let claim, let party): identify(claim, as: party)
        case .observed(let claim, let observation): observe(claim, observation, &effects)
        case .withdrawn(let claim): withdraw(claim, &effects)
        case .forced(let claim): force(claim, &effects)
        case .vacated(let document, let orphan): vacate(document, orphan)
        case .replaced(let document, let incoming, let orphan): replace(document, incoming, orphan)
        case .placed(let item, let directory): place(item, directory)
        case .forgotten(let item): tree.forget(item)
        case .relinked(let link, let target, let place): follow(link, to: target, place, &effects)
        case .presented(let presenter): present(presenter)
        case .shown(let presenter, let item, let place): show(presenter, item, place)
        case .removed(let presenter): removePresenter(presenter)
        case .answered(let question, let presenter, let reply):
            answer(question, by: presenter, reply, &effects)
        case .progressed(let question): progress(question)
        case .changed(let item, let place, let cause, let claim, let stamp):
            noteChange(of: item, at: place, cause, under: claim, stamp: stamp, &effects)
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

    /// One of those a claim waits for (Q1); nil if it waits for nobody.
    public func obstacle(of claim: ClaimID) -> ClaimID? { waits[claim]?.watched }

    /// Whether a claim lets others pass because nothing had changed under it (Y3).
    public func hasYieldedClean(_ claim: ClaimID) -> Bool { claims[claim]?.isClean ?? false }

    /// The oldest suspended write claim of somebody else on an item this claim writes: the contents this
    /// claim leaves must be kept before it ends.
    public func suspendedWriter(beside claim: ClaimID) -> ClaimID? {
        // Y8.
        oldestWriter(beside: claim) { $0.suspension != nil }
    }

    /// Whether somebody else was given the item after this claim let others pass: what its handle still
    /// writes goes over that writer's contents (Y8).
    public func isOverruled(_ claim: ClaimID) -> Bool {
        guard claims[claim]?.suspension != nil else { return false }
        return oldestWriter(beside: claim) { $0.suspension == nil } != nil
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

/// The short way (G2).
extension Arbiter {
    /// Grants a claim on one item that has no other claims, and returns whether it was one.
    private mutating func claimAlone(_ request: Request, _ effects: inout [Effect]) -> Bool {
        guard request.isSimple, request.nature != .batch, hasOneStake(request.first),
            !mayConcernPresenters(request)
        else { return false }
        let access = request.first.access
        guard dockets[.item(request.first.item), default: Docket()].enterAlone(request.claim, access.isWrite)
        else { return false }
        var claim = Claim(request)
        claim.isHeld = true
        add(claim)
        effects.append(.grant(request.claim, Grant(basis: .free)))
        return true
    }

    /// Whether the item is all there is to stake (S1 to S3), as it nearly always is.
    private func hasOneStake(_ part: Request.Part) -> Bool {
        if tree.isEmpty { return true }
        return disputed.isEmpty && tree.unit(of: part.item, at: part.place) == nil
            && !(part.access.isStructural && tree.isDirectory(part.item))
    }

    /// Whether anybody may have to be asked about a part that is in no package, and no structural write of a directory.
    private func mayConcernPresenters(_ request: Request) -> Bool {
        if desk.isEmpty { return false }
        let part = request.first
        return desk.presented[part.item] != nil
            || (part.access.isDeletion && desk.agreeingToDeletions > 0)
    }

    /// Ends a claim on one item that was alone there, and returns whether it was one.
    private mutating func endAlone(_ id: ClaimID) -> Bool {
        guard let entry = claims.index(forKey: id) else { return true }
        // In place: to copy a docket costs more than all the rest.
        guard let item = claims.values[entry].itemHeldAlone(), let place = dockets.index(forKey: .item(item)),
            dockets.values[place].isOneHolders()
        else { return false }
        dockets.remove(at: place)
        claims.remove(at: entry)
        return true
    }

    private mutating func add(_ claim: Claim) {
        let previous = claims.updateValue(claim, forKey: claim.id)
        precondition(previous == nil, "a claim is made once")
        if claim.nature == .aware { aware.insert(claim.id) }
        if claim.nature == .batch { batches.insert(claim.id) }
        if let question = claim.answering { answering[question, default: []].append(claim.id) }
    }
}

/// What each event means.
extension Arbiter {
    private mutating func claim(_ request: Request, _ effects: inout [Effect]) {
        var claim = Claim(request)
        claim.setStakes(stakes(of: claim))
        dispute(claim)
        if let watched = inTheWay(of: claim) {
            add(claim)
            enter(claim)
            wait(claim, watching: watched, &effects)
        } else if concernsPresenters(claim) {
            add(claim)
            enter(claim)
            wait(claim, watching: nil, &effects)
        } else {
            claim.isHeld = true
            add(claim)
            hold(claim, basis: .free, &effects)
        }
    }

    private mutating func end(_ id: ClaimID, _ effects: inout [Effect]) {
        guard let claim = claims[id] else { return }
        // Q4.
        guard claim.isHeld else { return refuse(claim, .withdrawn, &effects) }
        forget(claim, &effects)
    }

    private mutating func withdraw(_ id: ClaimID, _ effects: inout [Effect]) {
        // Q4.
        guard let claim = claims[id], !claim.isHeld else { return }
        refuse(claim, .withdrawn, &effects)
    }

    private mutating func force(_ id: ClaimID, _ effects: inout [Effect]) {
        // T2.
        guard let claim = claims[id], !claim.isHeld else { return }
        grant(claim, basis: .proceeded, &effects)
    }

    /// X1, X3: looks again at the claim, at those who waited for it, and at what it contests.
    private mutating func identify(_ id: ClaimID, as party: Party) {
        guard var claim = claims[id], !claim.isIdentified else { return }
        claim.isAsked = true
        claim.isIdentified = true
        claim.kin = kinships.join(party)
        claims[id] = claim
        name(claim)
        parties[id] = party
        unnamed.remove(id)
        if claim.isHeld {
            holderKinship.insert(id, of: party)
            newHolders.append(id)
            // D1: who it is counts for what was made within it as well.
            suspects += nested[id] ?? []
            shaken.append(id)
            if claim.nature == .episode { joinTurns(claim, party) }
        } else {
            waiterKinship.insert(id, of: party)
            unsettled.append(id)
            suspects.append(id)
            shakeContested(by: claim)
        }
        releaseWatchers(of: id)
    }

    mutating func refuse(_ claim: Claim, _ refusal: Refusal, _ effects: inout [Effect]) {
        effects.append(.refuse(claim.id, refusal))
        refused[claim.id] = LastWait(
            obstacle: waits[claim.id]?.watched, questions: openQuestions(for: claim.id))
        shakeContested(by: claim)
        forget(claim, &effects)
    }

    /// Removes every trace of a claim, and looks again at those who waited for it.
    private mutating func forget(_ claim: Claim, _ effects: inout [Effect]) {
        leave(claim)
        settleDispute(claim)
        if !desk.inquiries.isEmpty { leaveTurns(claim.id, atOnce: claim.isAware, &effects) }
        if claim.nature == .aware { aware.remove(claim.id) }
        if claim.nature == .batch { batches.remove(claim.id) }
        if let question = claim.answering {
            answering[question]?.removeAll { $0 == claim.id }
            if answering[question]?.isEmpty ?? false { answering[question] = nil }
        }
        claims.removeValue(forKey: claim.id)
        stopWaiting(claim)
        contests[claim.id] = nil
        if let party = parties.removeValue(forKey: claim.id) {
            kinships.leave(party)
            if claim.isHeld {
                holderKinship.remove(claim.id, of: party)
                suspectRelatives(of: party)
            } else {
                waiterKinship.remove(claim.id, of: party)
            }
        }
        releaseWatchers(of: claim.id)
    }

    /// Removes what is known of a claim because it waits.
    mutating func stopWaiting(_ claim: Claim) {
        guard waits.removeValue(forKey: claim.id) != nil else { return }
        unnamed.remove(claim.id)
        hungOn.remove(claim.id)
        for outer in claim.within {
            nested[outer]?.removeAll { $0 == claim.id }
            if nested[outer]?.isEmpty ?? false { nested[outer] = nil }
        }
    }

    /// Notes in the queues whose a claim is.
    private mutating func name(_ claim: Claim) {
        claim.forEachStake { stake in
            guard let place = dockets.index(forKey: stake.resource) else { return }
            if claim.isHeld {
                dockets.values[place].held.name(claim.id, claim.kin, stake.isWrite)
            } else {
                dockets.values[place].waiting.name(claim.id, claim.kin, stake.isWrite)
            }
        }
    }

    /// Enters a claim in the docket of each of its stakes.
    mutating func enter(_ claim: Claim) {
        claim.forEachStake { enter(claim, $0) }
    }

    mutating func enter(_ claim: Claim, _ stake: Stake) {
        if claim.isHeld {
            dockets[stake.resource, default: Docket()].held.insert(claim.id, claim.kin, stake.isWrite)
        } else {
            dockets[stake.resource, default: Docket()].waiting.insert(claim.id, claim.kin, stake.isWrite)
        }
    }

    mutating func leave(_ claim: Claim) {
        claim.forEachStake { leave(claim, $0) }
    }

    mutating func leave(_ claim: Claim, _ stake: Stake) {
        guard let place = dockets.index(forKey: stake.resource) else { return }
        if claim.isHeld {
            dockets.values[place].held.remove(claim.id, stake.isWrite)
        } else {
            dockets.values[place].waiting.remove(claim.id, stake.isWrite)
        }
        if dockets.values[place].isEmpty { dockets.remove(at: place) }
    }
}

extension [ClaimID: Party] {
    /// Whose claim it is, if it is anybody's and known.
    subscript(claim: ClaimID?) -> Party? { claim.flatMap { self[$0] } }
}
