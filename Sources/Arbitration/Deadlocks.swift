// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// How cycles of claims are found, and what is done about them.
extension Arbiter {
    /// D2: looks at those through whom a new cycle may lead, and does something about each that is found.
    mutating func lookForCycles(_ effects: inout [Effect]) {
        if mayCatchUp { (cycleWatch.isSearching, cycleWatch.due) = (true, nil) }
        let round = Set(suspects)
        counter.add(suspects.count)
        suspects.removeAll(keepingCapacity: true)
        guard maySearch else {
            cycleWatch.isSearching = false
            return putOffSuspects()
        }
        let isAll = cycleWatch.isSearching
        for id in round where claims[id].map(isHungOn) ?? false { hungOn.insert(id) }
        if cycleWatch.isBehind { catchUpWithHungOn() }
        let roots = mayBeCycles ? (isAll ? hungOn : roots(of: round)) : []
        if isAll, roots.isEmpty { cycleWatch.agenda = CycleAgenda() }
        guard !roots.isEmpty else { return cycleWatch.isSearching = false }
        let (cycles, isComplete) = hunt(from: roots, isAll: isAll)
        guard let cycle = cycles.first else {
            cycleWatch.isSearching = false
            return isComplete ? () : putOffSearch()
        }
        // There may be more than one; and what is done about one may end another.
        suspects += isAll ? cycle.map(\.waiting) : Array(round)
        breakUp(cycle, &effects)
        if !isComplete { breakUp(cycles.dropFirst(), apartFrom: cycle, &effects) }
    }

    /// The cycles that are found, and whether all was looked at.
    private mutating func hunt(from roots: Set<ClaimID>, isAll: Bool) -> ([CycleSearch.Cycle], Bool) {
        let ground = CycleGround(self, most: crowd.steps - cycleWatch.steps)
        // D5: where the search among all goes on, a search among a few does not change.
        var hunt = CycleHunt(on: ground, after: isAll ? cycleWatch.agenda : CycleAgenda())
        hunt.search(from: roots)
        cycleWatch.steps += ground.steps
        counter.add(ground.steps)
        if isAll { cycleWatch.agenda = hunt.agenda }
        return (hunt.cycles, hunt.isComplete)
    }

    /// D5: where not all can be looked at, these would be found again only when their turn comes again, and then there may be another
    /// one with a lower number.
    private mutating func breakUp(
        _ cycles: ArraySlice<CycleSearch.Cycle>, apartFrom first: CycleSearch.Cycle, _ effects: inout [Effect]
    ) {
        var concerned = Set(first.flatMap(\.claims))
        var left = crowd.steps
        for cycle in cycles where concerned.isDisjoint(with: cycle.flatMap(\.claims)) {
            guard let present = present(cycle, &left), concerned.isDisjoint(with: present.flatMap(\.claims))
            else { continue }
            concerned.formUnion(present.flatMap(\.claims))
            breakUp(present, &effects)
        }
    }

    /// What there still is of a cycle: what was done about others may have ended it.
    private func present(_ cycle: CycleSearch.Cycle, _ left: inout Int) -> CycleSearch.Cycle? {
        let ground = CycleGround(self, most: left)
        defer { left -= ground.steps }
        return CycleSearch(among: Set(cycle.map(\.waiting)), on: ground).first()
    }

    /// D2: whether there is anything but queues to wait for: those lead to earlier claims alone.
    private var mayBeCycles: Bool { !answering.isEmpty || !nested.isEmpty || !hungOn.isEmpty }

    /// Where to begin, if a cycle may lead through these: a cycle leads through one on whom a holder hangs.
    ///
    /// One on whom none hangs, and behind whom none waits who is known, is waited for by none. Through others the cycle leads
    /// through one of those, too; and a claim that has gone may have let others be held up by way of it.
    private func roots(of round: Set<ClaimID>) -> Set<ClaimID> {
        let isElsewhere = round.contains { id in
            !hungOn.contains(id) && (claims[id].map { $0.isHeld || isWaitedForInQueue($0) } ?? true)
        }
        return isElsewhere ? hungOn : round.intersection(hungOn)
    }

    private func isWaitedForInQueue(_ claim: Claim) -> Bool {
        claim.firstOfStakes { stake in
            guard let waiting = dockets[stake.resource]?.waiting else { return nil }
            let isOne = waiting.writers.hasKnown(after: claim.id) || waiting.readers.hasKnown(after: claim.id)
            return isOne ? true : nil
        } ?? false
    }

    /// D2: waiting claims on which a claim hangs that has just become held, or known.
    mutating func suspectThoseHung(on holder: Claim, _ party: Party) {
        guard maySuspect(upTo: waiterKinship.countOfCounterparts(of: party)) else { return }
        waiterKinship.forEachCounterpart(of: party) { suspects.append($0) }
    }

    /// D2: claims whose program's hold on others has changed.
    mutating func suspectRelatives(of party: Party) {
        guard maySuspect(upTo: waiterKinship.countOfRelatives(of: party)) else { return }
        waiterKinship.forEachRelative(of: party) { suspects.append($0) }
    }

    /// D2: all on whom anything hangs: whom a claim holds up by way of others may have changed far from here.
    mutating func suspectAllHungOn() {
        if maySuspect(upTo: hungOn.count) { suspects += hungOn }
    }

    /// D2, Q3: who was held up by way of this claim, which waits no longer, may stand in somebody's way now.
    mutating func suspectPassersBy(of claim: Claim) {
        // No longer waiting itself, it has all be looked at on whom anything hangs.
        if mayBeCycles, maySuspect(upTo: 1) { suspects.append(claim.id) }
    }

    /// D5: whether so many are noted one by one; otherwise all are looked at when cycles are looked for next.
    private mutating func maySuspect(upTo count: Int) -> Bool {
        if count == 0 { return false }
        if maySearch {
            cycleWatch.steps += count / 16
            return true
        }
        putOffSuspects()
        return false
    }

    private mutating func putOffSuspects() {
        cycleWatch.isBehind = true
        putOffSearch()
    }

    /// Finds out anew on whom anything hangs.
    private mutating func catchUpWithHungOn() {
        cycleWatch.isBehind = false
        cycleWatch.steps += min(waits.count, 8 * crowd.steps) / 16
        hungOn = Set(waits.keys.filter { id in claims[id].map(isHungOn) ?? false })
    }

    /// Whether anything hangs on a waiting claim, or an answer does: otherwise no cycle leads through it.
    private func isHungOn(_ claim: Claim) -> Bool {
        if claim.isHeld { return false }
        if !claim.within.isEmpty || claim.answering != nil { return true }
        return parties[claim.id].map { holderKinship.hasCounterpart(of: $0) } ?? false
    }

    /// D2: through the lowest claim that is in one.
    func firstCycle() -> CycleSearch.Cycle? {
        CycleSearch(among: Set(waits.keys), on: CycleGround(self, most: .max)).first()
    }

    /// D3, D4.
    private mutating func breakUp(_ cycle: CycleSearch.Cycle, _ effects: inout [Effect]) {
        let waiting = cycle.compactMap { claims[$0.waiting] }
        let tell = { (way: Deadlock.Way, claim: ClaimID) in
            Effect.deadlock(Deadlock(cycle: cycle.flatMap(\.claims), way, claim))
        }
        if let claim = waiting.filter(isHeldBackByQueueAlone).min(by: { $0.id < $1.id }) {
            effects.append(tell(.passes, claim.id))
            claims[claim.id]?.passes = true
            unsettled.append(claim.id)
        } else if let holder = cycle.compactMap({ $0.holder.flatMap { claims[$0] } })
            .filter({ $0.nature == .handle && !$0.isFullySuspended }).min(by: Self.yieldsBefore)
        {
            effects.append(tell(.suspends, holder.id))
            suspend(holder.id, .deadlocked, &effects)
        } else if let claim = waiting.filter(\.isAware).max(by: { $0.id < $1.id }) {
            effects.append(tell(.refuses, claim.id))
            refuse(claim, .deadlock, &effects)
        } else if let claim = waiting.max(by: { $0.id < $1.id }) {
            effects.append(tell(.proceeds, claim.id))
            grant(claim, basis: .proceeded, &effects)
        }
    }

    private func isHeldBackByQueueAlone(_ claim: Claim) -> Bool {
        guard !claim.passes, waits[claim.id]?.watched != nil, claim.nature != .nameChange else {
            return false
        }
        return claim.firstOfStakes { stake in
            dockets[stake.resource].flatMap { holder(in: $0, keepingOut: claim, stake) }
        } == nil
    }

    private static func yieldsBefore(_ one: Claim, _ other: Claim) -> Bool {
        one.onlyReads == other.onlyReads ? one.id < other.id : one.onlyReads
    }

    /// D1: whether a held claim cannot end before a waiting one has.
    func hangs(_ holder: Claim, on claim: Claim) -> Bool {
        guard holder.nature == .handle || holder.nature == .aware, holder.isIdentified, claim.isIdentified
        else {
            return false
        }
        if claim.within.contains(holder.id) { return true }
        guard areOfOneProgram(holder, claim), let party = parties[holder.id], let other = parties[claim.id]
        else {
            return false
        }
        return
            !(party.process == other.process && party.thread != 0 && other.thread != 0
            && party.thread != other.thread)
    }

    /// D1: waiting claims made to give the answers that a claim waits for, or made within such a claim.
    func claimsAnswering(for claim: Claim) -> [(waiting: ClaimID, holder: ClaimID?)] {
        if answering.isEmpty || desk.inquiries[claim.id] == nil { return [] }
        var found: [(waiting: ClaimID, holder: ClaimID?)] = []
        for id in openQuestions(for: claim.id).flatMap({ answering[$0.id] ?? [] }) {
            guard let answerer = claims[id], answerer.isIdentified else { continue }
            if !answerer.isHeld { found.append((id, nil)) }
            // Its program may well do other things meanwhile, so nothing else hangs on the answer.
            for inner in nested[id] ?? [] where claims[inner]?.isIdentified ?? false {
                found.append((inner, id))
            }
        }
        return found
    }

    /// The waiting claims on which a held one hangs, in the order of their numbers.
    public func waited(by holder: ClaimID) -> [ClaimID] {
        guard let claim = claims[holder], claim.isHeld else { return [] }
        var found = Set(nested[holder] ?? [])
        if let party = parties[holder] { waiterKinship.forEachCounterpart(of: party) { found.insert($0) } }
        return found.filter { claims[$0].map { hangs(claim, on: $0) } ?? false }.sorted()
    }
}

extension Arbiter {
    func isObstacle(_ holder: Claim, of claim: Claim, at stake: Stake) -> Bool {
        guard let isWriting = holder.isWriting(stake.resource), holder.id != claim.id else { return false }
        if claim.nature == .nameChange {
            return holder.nature == .aware && keepsOut(holder, claim, asWriter: stake.isWrite)
        }
        return isInTheWay(holder: holder.id, asWriter: isWriting, of: claim, asWriter: stake.isWrite)
    }
}
