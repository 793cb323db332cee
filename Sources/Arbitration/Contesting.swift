// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How holders come to be contested, and to yield.
extension Arbiter {
    /// Notes the holders that a claim which begins to wait may contest.
    mutating func shakeHolders(disputedBy claim: Claim) {
        claim.forEachStake { stake in
            guard let docket = dockets[stake.resource], !docket.held.isEmpty else { return }
            if !throngs.isEmpty, throngs[stake.resource] != nil { return shakeThrong(at: stake, by: claim) }
            let (held, waiting) = (docket.held, docket.waiting)
            // Where others wait already, each holder that is neither contested nor calm lets all pass. Readers of whom a reader
            // comes to wait are skipped: they may be very many.
            if waiting.count > 1 { challenge(standoffs[stake.resource]?.calm ?? [], claim) }
            let met =
                (waiting.count == 1 ? held.writers.strangers(of: claim.kin) : [])
                + (stake.isWrite && waiting.writers.count == 1 ? held.readers.strangers(of: claim.kin) : [])
            shaken += met.filter { contests[$0] == nil }
        }
    }

    /// Notes all holders, but of very many only those that have a contest and those that may come to have one.
    mutating func shakeHolders(at resource: Resource, _ held: Docket.Side) {
        guard throngs[resource] != nil else {
            shaken += Array(held.readers) + Array(held.writers)
            return
        }
        throngs[resource]?.rouse { _ in true }
        for group in throngs[resource]?.active ?? [] {
            shaken += group.kind.isBounded ? Array(group.contested) : group.all
        }
        vacancies.insert(resource)
    }

    /// Y11: the first of those whom it may contest are looked for.
    private mutating func shakeThrong(at stake: Stake, by claim: Claim) {
        guard var throng = throngs.removeValue(forKey: stake.resource) else { return }
        throng.rouse { group in
            isInTheWay(holder: group.first, asWriter: group.kind.isWrite, of: claim, asWriter: stake.isWrite)
        }
        // X2: changes of names are asked about, though they have no contest.
        shaken += throng.unbounded
        throngs[stake.resource] = throng
        vacancies.insert(stake.resource)
    }

    /// Notes those of some holders that keep out a claim.
    private mutating func challenge(_ holders: Set<ClaimID>, _ claim: Claim) {
        for id in holders {
            guard let holder = claims[id], isInTheWay(holder, of: claim) else { continue }
            shaken.append(id)
            challengers[id] = claim.id
        }
    }

    /// Notes the holders that must find another contestant when this claim no longer is one.
    mutating func shakeContested(by claim: Claim) {
        shaken += contests.holders(contestedBy: claim.id)
    }

    /// Begins, continues or ends the contests that may have changed.
    mutating func reviewContests(_ effects: inout [Effect]) {
        let round = shaken.sorted()
        counter.add(round.count)
        shaken.removeAll(keepingCapacity: true)
        var previous: ClaimID?
        var newcomers: [ClaimID] = []
        for id in round where id != previous {
            previous = id
            guard let holder = claims[id], holder.isHeld else { continue }
            if !throngs.isEmpty, holder.isBounded, contests[id] == nil, !desk.isRelinquished(to: id) {
                newcomers.append(id)
            } else {
                review(holder, &effects)
            }
        }
        if !newcomers.isEmpty || !vacancies.isEmpty { admit(newcomers, &effects) }
        if !challengers.isEmpty { challengers.removeAll(keepingCapacity: true) }
    }

    /// Y11: the lowest numbers first, as long as there is room for them.
    private mutating func admit(_ newcomers: [ClaimID], _ effects: inout [Effect]) {
        var left = newcomers[...]
        var withoutCandidate: Set<Resource> = []
        while let (next, resource) = firstOfCandidates(left.first, &withoutCandidate) {
            if next == left.first { left.removeFirst() }
            if let holder = claims[next], holder.isHeld { review(holder, &effects) }
            // It is not looked at twice.
            if let resource, throngs[resource]?.next == next { throngs[resource]?.calmDown(next) }
        }
        for resource in withoutCandidate { endFullness(at: resource) }
    }

    /// The lowest of those that may come to be contested, and where there is room for it.
    private mutating func firstOfCandidates(
        _ newcomer: ClaimID?, _ withoutCandidate: inout Set<Resource>
    ) -> (ClaimID, Resource?)? {
        var first: (ClaimID, Resource?)? = newcomer.map { ($0, nil) }
        for resource in vacancies.sorted() {
            guard let candidate = candidate(at: resource) else {
                vacancies.remove(resource)
                withoutCandidate.insert(resource)
                continue
            }
            if first.map({ candidate <= $0.0 }) ?? true { first = (candidate, resource) }
        }
        return first
    }

    /// The lowest of very many holders that keeps out one who waits, if there is room for it.
    private mutating func candidate(at resource: Resource) -> ClaimID? {
        guard let docket = dockets[resource], !docket.waiting.isEmpty, hasRoom(at: resource) else {
            return nil
        }
        while let next = throngs[resource]?.next {
            guard let holder = claims[next], let isWrite = holder.isWriting(resource) else { return nil }
            if contestant(of: holder, at: Stake(resource, isWrite: isWrite)) != nil { return next }
            throngs[resource]?.calmDown(next)
        }
        return nil
    }

    private mutating func review(_ holder: Claim, _ effects: inout [Effect]) {
        // Nobody is in the way of whoever lets everybody pass, but by X4: it need not be looked for.
        let isPassed = holder.isFullySuspended && (holder.onlyReads || holder.isIdentified)
        let contestant = isPassed ? nil : contestant(of: holder)
        guard contestant != nil || desk.isRelinquished(to: holder.id) else {
            // What one keeps out all keep out that are like it.
            if !throngs.isEmpty, !isPassed, contests[holder.id] != nil {
                holder.forEachStake { throngs[$0.resource]?.calmDown(holder.id) }
            }
            setContest(of: holder, nil)
            if isPassed { leaveStandoffs(holder) } else { calmDown(holder) }
            return
        }
        askWho(holder.id, &effects)
        // Y1, Y7; and one who is held back by X4 alone contests nothing.
        guard holder.isBounded, !holder.isFullySuspended else { return calmDown(holder) }
        if contests[holder.id] != nil {
            contests[holder.id]?.contestant = contestant
        } else {
            begin(contest: holder, by: contestant)
        }
        // Y3.
        if holder.onlyReads, holder.nature == .handle, parties[holder.id]?.programClass == .background {
            suspend(holder.id, .yielded, &effects)
        }
    }

    private mutating func begin(contest holder: Claim, by contestant: ClaimID?) {
        // Y2, Y7.
        let firstLook = holder.nature == .handle ? now + bounds.glance : nil
        var since = beginning(of: holder)
        // Y11.
        holder.forEachStake { stake in
            if let full = standoffs[stake.resource]?.fullSince { since = min(since, full) }
        }
        let contest = Contest(
            since: since, end: since + longestHold(of: holder), outset: now + bounds.outset,
            contestant: contestant,
            nextLook: firstLook, lastChange: now)
        setContest(of: holder, contest)
        rearm(holder.id)
    }

    private func longestHold(of holder: Claim) -> Span {
        // Y10.
        if holder.conduct.contains(.locks) { return min(bounds.idle, bounds.hold) }
        return holder.isAware ? bounds.holdAware : bounds.hold
    }

    /// X6, Y10: who waited for it because of what it does may not have to any more, and who still does waits for a shorter time.
    mutating func noteLock(of id: ClaimID) {
        guard let claim = claims[id], claim.nature == .handle, !claim.conduct.contains(.locks) else { return }
        let isLast = abandon(claim)
        claims[id]?.conduct.insert(.locks)
        renewInThrongs(id)
        if claim.isHeld {
            if let changed = claims[id] { _ = fortify(changed) }
            if var contest = contests[id], let holder = claims[id] {
                contest.end = contest.since + longestHold(of: holder)
                contests[id] = contest
                rearm(id)
            }
            shaken.append(id)
        } else {
            unsettled.append(id)
            shakeContested(by: claim)
        }
        // D2: what it holds, or waits for, may hold up fewer than before.
        if claim.isHeld, isLast || !claim.isStrong, let party = parties[id] { suspectRelatives(of: party) }
        suspectAllHungOn()
        releaseWatchers(of: id)
    }

    /// Of very many that are contested, each that its program has made while others waited has the time of the first one already.
    private static let lookedAtForBeginning = 64

    /// Y6: whoever goes before one who waits for its own program has no more time than was left of that one's: or a program
    /// that always has a file open by the next handle before it closes the last would keep everybody else out for good.
    private func beginning(of holder: Claim) -> Instant {
        let isKeptOut = { (id: ClaimID) in claims[id].map { isInTheWay(holder, of: $0) } ?? false }
        guard meetsEarlierWaiter(holder, where: isKeptOut) else { return now }
        var since = now
        let take = { (id: ClaimID) in
            guard let contest = contests[id], contest.since < since, let other = claims[id],
                other.isAware == holder.isAware, holder.shares(stakeWith: other),
                holder.within.contains(id) || areOfOneProgram(other, holder)
            else { return }
            since = contest.since
        }
        if let party = parties[holder.id], holderKinship.hasOthers(than: holder.id, of: party) {
            holder.forEachStake {
                standoffs[$0.resource]?.contested.forEachOfLast(Self.lookedAtForBeginning, take)
            }
        }
        holder.within.forEach(take)
        return since
    }

    /// One who waits and in whose way this holder stands; the present one as long as it will do.
    private func contestant(of holder: Claim) -> ClaimID? {
        if let present = contests[holder.id]?.contestant, let claim = claims[present], !claim.isHeld,
            isInTheWay(holder, of: claim)
        {
            return present
        }
        if let newcomer = challengers[holder.id], let claim = claims[newcomer], !claim.isHeld,
            isInTheWay(holder, of: claim)
        {
            return newcomer
        }
        return holder.firstOfStakes { stake in
            // Y11.
            if !throngs.isEmpty, throngs[stake.resource] != nil, holder.isBounded, contests[holder.id] == nil,
                !hasRoom(at: stake.resource)
            {
                return nil
            }
            return contestant(of: holder, at: stake)
        }
    }

    private func contestant(of holder: Claim, at stake: Stake) -> ClaimID? {
        guard let waiting = dockets[stake.resource]?.waiting, !waiting.isEmpty else { return nil }
        if !throngs.isEmpty, throngs[stake.resource]?.isCalm(holder.id) ?? false { return nil }
        let isKeptOut = { (id: ClaimID, isWrite: Bool) in
            claims[id].map {
                isInTheWay(holder: holder.id, asWriter: stake.isWrite, of: $0, asWriter: isWrite)
            } ?? false
        }
        // Each of very many holders is to have another one: few have to look again when that one goes.
        return waiting.writers.someStranger(of: holder.kin, seed: holder.id) { isKeptOut($0, true) }
            ?? (stake.isWrite
                ? waiting.readers.someStranger(of: holder.kin, seed: holder.id) { isKeptOut($0, false) }
                : nil)
    }

    /// Whether a holder stands in the way of a waiting claim anywhere.
    func isInTheWay(_ holder: Claim, of claim: Claim) -> Bool {
        claim.firstOfStakes { stake in
            guard let isWriting = holder.isWriting(stake.resource), isWriting || stake.isWrite,
                isInTheWay(holder: holder.id, asWriter: isWriting, of: claim, asWriter: stake.isWrite)
            else { return nil }
            return true
        } ?? false
    }
}

/// What is seen of contested holders, and what follows.
extension Arbiter {
    mutating func observe(_ id: ClaimID, _ observation: Observation, _ effects: inout [Effect]) {
        // Q4: without a contest there is nothing to yield to.
        guard var contest = contests[id], let claim = claims[id] else { return }
        if let seen = contest.seen, seen != observation { contest.lastChange = now }
        contest.seen = observation
        contests[id] = contest
        let still = now.since(contest.lastChange)
        switch observation {
        // Y3.
        case .clean:
            claims[id]?.isClean = true
            suspend(id, .yielded, &effects)
        case .atEnd: suspend(id, .yielded, &effects)
        // Y9.
        case .unchanged(let position):
            if still >= bounds.idle {
                claims[id]?.isClean = true
                suspend(id, .yielded, &effects)
            } else if claim.suspension == nil {
                letReadersPass(id, hasRead: position > 0, &effects)
            }
        // Y4.
        case .finishing: if still >= bounds.readerIdle { suspend(id, .yielded, &effects) }
        case .reading: if still >= bounds.readerIdle { suspend(id, .stoodStill, &effects) }
        // Y5.
        case .untouched: break
        case .dirty: if still >= bounds.idle, claim.suspension == nil { suspend(id, .idle, &effects) }
        }
    }

    /// Y9: at once or later, when it is looked at once more (Y2).
    private mutating func letReadersPass(_ id: ClaimID, hasRead: Bool, _ effects: inout [Effect]) {
        guard let contest = contests[id] else { return }
        if hasRead || now >= contest.outset { return suspend(id, .unchanged, &effects) }
        guard let next = contest.nextLook, contest.outset < next else { return }
        contests[id]?.nextLook = contest.outset
        rearm(id)
    }

    /// Lets others pass, and looks again at those who watched and at the contest.
    mutating func suspend(_ id: ClaimID, _ suspension: Suspension, _ effects: inout [Effect]) {
        guard let entry = claims.index(forKey: id) else { return }
        // Y8. (No claim comes or goes below, so the place stays.)
        let present = claims.values[entry].suspension
        guard present.map({ $0.isForReaders && !suspension.isForReaders }) ?? true else { return }
        let former = claims.values[entry]
        let isLast = abandon(former) || !former.isStrong
        claims.values[entry].suspension = suspension
        tellBeforeSuspension(of: claims.values[entry], &effects)
        if claims.values[entry].isFullySuspended { setContest(of: former, nil) }
        renewInThrongs(id)
        if isLast, let party = parties[id] { suspectRelatives(of: party) }
        effects.append(.suspend(id, suspension))
        releaseWatchers(of: id)
        shaken.append(id)
    }
}
