// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// How cycles of waiting claims are found and ended.
extension Arbiter {
    /// D2: Searches for cycles through the claims in the agenda, and ends each cycle that is found.
    mutating func searchForCycles(_ effects: inout [Effect]) {
        if canRunDeferredSearch { waitForGraph.schedule.beginDeferredSearch() }
        let (round, added) = agenda.takeCycleCandidates()
        workCounter.add(added)
        guard maySearch() else {
            waitForGraph.schedule.end()
            return deferCandidates()
        }
        let isAll = waitForGraph.schedule.isSearching
        for id in round where claims[id].map(isDependencyTarget) ?? false {
            waitForGraph.addDependencyTarget(id)
        }
        if waitForGraph.isBehind { rebuildDependencyTargets() }
        let roots =
            waitForGraph.mayHaveCycles ? (isAll ? waitForGraph.dependencyTargets : roots(of: round)) : []
        if isAll, roots.isEmpty { waitForGraph.schedule.resume(from: CycleSearchBacklog()) }
        guard !roots.isEmpty else { return waitForGraph.schedule.end() }
        let (cycles, isComplete) = findCycles(from: roots, isAll: isAll)
        guard let cycle = cycles.first else {
            waitForGraph.schedule.end()
            return isComplete ? () : deferSearch()
        }
        // The end of this cycle can also end other cycles of these claims. So the claims are searched once more.
        agenda.addCycleCandidates(isAll ? cycle.map(\.waiting) : Array(round))
        resolve(cycle, &effects)
        if !isComplete { resolve(cycles.dropFirst(), apartFrom: cycle, &effects) }
    }

    /// Returns the cycles that were found, and whether the search was complete.
    private mutating func findCycles(from roots: Set<ClaimID>, isAll: Bool) -> ([CycleFinder.Cycle], Bool) {
        let graph = WaitForGraphView(self, most: limits.steps - waitForGraph.schedule.steps)
        // D5: A search from a few claims must not change where the next search from all claims begins.
        var scheduler = CycleScheduler(
            on: graph, after: isAll ? waitForGraph.schedule.backlog : CycleSearchBacklog())
        scheduler.search(from: roots)
        waitForGraph.schedule.addSteps(graph.steps)
        workCounter.add(graph.steps)
        if isAll { waitForGraph.schedule.resume(from: scheduler.backlog) }
        return (scheduler.cycles, scheduler.isComplete)
    }

    /// D5: Ends all cycles that an incomplete search has found, except the first, which was ended before.
    ///
    /// The next search could find these cycles much later, because it begins with other claims.
    private mutating func resolve(
        _ cycles: ArraySlice<CycleFinder.Cycle>, apartFrom first: CycleFinder.Cycle, _ effects: inout [Effect]
    ) {
        var concerned = Set(first.flatMap(\.claims))
        var left = limits.steps
        for cycle in cycles where concerned.isDisjoint(with: cycle.flatMap(\.claims)) {
            guard let present = present(cycle, &left), concerned.isDisjoint(with: present.flatMap(\.claims))
            else { continue }
            concerned.formUnion(present.flatMap(\.claims))
            resolve(present, &effects)
        }
    }

    /// Returns a cycle among the claims of `cycle`. Nil if there is no cycle any more, because the end of another cycle
    /// has ended this one.
    private func present(_ cycle: CycleFinder.Cycle, _ left: inout Int) -> CycleFinder.Cycle? {
        let graph = WaitForGraphView(self, most: left)
        defer { left -= graph.steps }
        return CycleFinder(among: Set(cycle.map(\.waiting)), on: graph).first()
    }

    /// The claims from which a search must start in order to find every new cycle.
    ///
    /// Every cycle contains a dependency target: a waiting claim on which a holder depends. If all candidates are
    /// dependency targets, or have no identified claim behind them in a queue, the search starts from the candidates
    /// that are targets. If not, it starts from all dependency targets.
    private func roots(of round: Set<ClaimID>) -> Set<ClaimID> {
        let isElsewhere = round.contains { id in
            !waitForGraph.dependencyTargets.contains(id)
                && (claims[id].map { $0.isHeld || isWaitedForInQueue($0) } ?? true)
        }
        return isElsewhere
            ? waitForGraph.dependencyTargets : round.intersection(waitForGraph.dependencyTargets)
    }

    private func isWaitedForInQueue(_ claim: Claim) -> Bool {
        claim.firstOfRequiredLocks { lock in
            guard let waiting = locks[lock.resource]?.waiting else { return nil }
            let isOne = waiting.writers.hasKnown(after: claim.id) || waiting.readers.hasKnown(after: claim.id)
            return isOne ? true : nil
        } ?? false
    }

    /// D2: Called when a holder is granted or identified: adds the waiting claims on which it depends to the cycle
    /// candidates.
    mutating func addDependenciesToCandidates(on holder: Claim, _ party: Party) {
        guard mayAddCandidates(upTo: families.waiters.countOfCounterparts(of: party)) else { return }
        families.waiters.forEachCounterpart(of: party) { agenda.addCycleCandidate($0) }
    }

    /// D2: Called when a program blocks more or fewer claims than before: adds the program's waiting claims to the
    /// cycle candidates.
    mutating func addRelativesToCandidates(of party: Party) {
        guard mayAddCandidates(upTo: families.waiters.countOfRelatives(of: party)) else { return }
        families.waiters.forEachRelative(of: party) { agenda.addCycleCandidate($0) }
    }

    /// D2: Adds all waiting claims on which holders depend to the cycle candidates, because any claim may now wait for
    /// other claims than before.
    mutating func addAllDependencyTargets() {
        let targets = waitForGraph.dependencyTargets
        if mayAddCandidates(upTo: targets.count) { agenda.addCycleCandidates(targets) }
    }

    /// D2, Q3: Called when a claim no longer waits: adds the claim to the cycle candidates.
    mutating func addOvertakersToCandidates(of claim: Claim) {
        // A candidate that no longer waits causes a search from all waiting claims on which holders depend.
        if waitForGraph.mayHaveCycles, mayAddCandidates(upTo: 1) { agenda.addCycleCandidate(claim.id) }
    }

    /// D5: Returns whether `count` claims may be added to the cycle candidates.
    ///
    /// If it returns false, the deferred search starts from all waiting claims on which holders depend.
    private mutating func mayAddCandidates(upTo count: Int) -> Bool {
        if count == 0 { return false }
        if maySearch() {
            waitForGraph.schedule.addSteps(count / 16)
            return true
        }
        deferCandidates()
        return false
    }

    private mutating func deferCandidates() {
        waitForGraph.fallBehind()
        deferSearch()
    }

    /// Finds anew all dependency targets: the waiting claims on which a holder depends.
    private mutating func rebuildDependencyTargets() {
        waitForGraph.schedule.addSteps(min(waits.count, 8 * limits.steps) / 16)
        let targets = waits.ids.filter { id in claims[id].map(isDependencyTarget) ?? false }
        waitForGraph.setDependencyTargets(Set(targets))
    }

    /// Whether a holder, or the answer to a question, depends on a waiting claim. Every cycle contains such a claim.
    private func isDependencyTarget(_ claim: Claim) -> Bool {
        if claim.isHeld { return false }
        if !claim.within.isEmpty || claim.answering != nil { return true }
        return families.party(of: claim.id).map { families.holders.hasCounterpart(of: $0) } ?? false
    }

    /// D2: Returns the cycle through the lowest of all claims that are in a cycle.
    func firstCycle() -> CycleFinder.Cycle? {
        CycleFinder(among: Set(waits.ids), on: WaitForGraphView(self, most: .max)).first()
    }

    /// D3, D4: Reports a cycle, and ends it by the first of four steps that is possible.
    private mutating func resolve(_ cycle: CycleFinder.Cycle, _ effects: inout [Effect]) {
        let waiting = cycle.compactMap { claims[$0.waiting] }
        let tell = { (resolution: Deadlock.Resolution, claim: ClaimID) in
            Effect.deadlock(Deadlock(cycle: cycle.flatMap(\.claims), resolution, claim))
        }
        if let claim = waiting.filter(isHeldBackByQueueAlone).min(by: { $0.id < $1.id }) {
            effects.append(tell(.overtakes, claim.id))
            claims.update(claim.id) { $0.overtakes = true }
            agenda.addGrantCandidate(claim.id)
        } else if let holder = cycle.compactMap({ $0.holder.flatMap { claims[$0] } })
            .filter({ $0.nature == .handle && !$0.isFullySuspended }).min(by: Self.isPreferredVictim)
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
        guard !claim.overtakes, waits[claim.id]?.watched != nil, claim.nature != .nameChange else {
            return false
        }
        return claim.firstOfRequiredLocks { lock in
            locks[lock.resource].flatMap { holder(in: $0, keepingOut: claim, lock) }
        } == nil
    }

    private static func isPreferredVictim(_ one: Claim, _ other: Claim) -> Bool {
        one.onlyReads == other.onlyReads ? one.id < other.id : one.onlyReads
    }

    /// D1: From now on the claim depends on no other claim. This can end a cycle, but not close one.
    mutating func noteClose(of id: ClaimID) {
        guard let claim = claims[id], claim.nature == .handle, !claim.isClosed else { return }
        claims.update(id) { $0.isClosed = true }
        regroup(id)
    }

    /// D1: Whether a held claim cannot end before a waiting claim has ended, because the program of the holder waits.
    func depends(_ holder: Claim, on claim: Claim) -> Bool {
        guard holder.nature == .handle || holder.nature == .aware, !holder.isClosed, holder.isIdentified,
            claim.isIdentified
        else {
            return false
        }
        if claim.within.contains(holder.id) { return true }
        guard areOfOneProgram(holder, claim), let party = families.party(of: holder.id),
            let other = families.party(of: claim.id)
        else {
            return false
        }
        return
            !(party.process == other.process && party.thread != 0 && other.thread != 0
            && party.thread != other.thread)
    }

    /// D1: Returns the waiting claims that keep a claim's questions unanswered. They were made to answer the questions,
    /// or within a held claim that was made to answer one.
    func claimsAnswering(for claim: Claim) -> [(waiting: ClaimID, holder: ClaimID?)] {
        if !waitForGraph.hasAnswering || registry.consultations[claim.id] == nil { return [] }
        var found: [(waiting: ClaimID, holder: ClaimID?)] = []
        for id in openQuestions(for: claim.id).flatMap({ waitForGraph.claims(answering: $0.id) }) {
            guard let answerer = claims[id], answerer.isIdentified else { continue }
            if !answerer.isHeld { found.append((id, nil)) }
            for inner in waitForGraph.nested(in: id) where claims[inner]?.isIdentified ?? false {
                found.append((inner, id))
            }
        }
        return found
    }

    /// The waiting claims on which a held claim depends, in the order of their numbers.
    public func dependencies(of holder: ClaimID) -> [ClaimID] {
        guard let claim = claims[holder], claim.isHeld else { return [] }
        var found = Set(waitForGraph.nested(in: holder))
        if let party = families.party(of: holder) {
            families.waiters.forEachCounterpart(of: party) { found.insert($0) }
        }
        return found.filter { claims[$0].map { depends(claim, on: $0) } ?? false }.sorted()
    }
}

extension Arbiter {
    func isBlockingHolder(_ holder: Claim, of claim: Claim, at lock: RequiredLock) -> Bool {
        guard let isWriting = holder.isWriting(lock.resource), holder.id != claim.id else { return false }
        if claim.nature == .nameChange {
            return holder.nature == .aware && keepsOut(holder, claim, asWriter: lock.isWrite)
        }
        return isBlocker(holder: holder.id, asWriter: isWriting, of: claim, asWriter: lock.isWrite)
    }
}
