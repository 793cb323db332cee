// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How the contention of a holder begins, and how a holder is suspended.
extension Arbiter {
    /// Called when a claim begins to wait: adds the holders that block the claim to the agenda.
    mutating func addHoldersToReview(blocking claim: Claim) {
        claim.forEachRequiredLock { lock in
            guard let lockQueue = locks[lock.resource], !lockQueue.held.isEmpty else { return }
            if locks.hasGroups, locks.isGrouped(lock.resource) {
                return addGroupsToReview(at: lock, by: claim)
            }
            let (held, waiting) = (lockQueue.held, lockQueue.waiting)
            // If other claims wait already, only the holders that blocked no waiting claim until now must be reviewed.
            // All other holders have a contention or are fully suspended.
            if waiting.count > 1 {
                noteNewWaiter(contentions.nonblocking(at: lock.resource), claim)
            }
            let met =
                (waiting.count == 1 ? held.writers.strangers(of: claim.partyNumber) : [])
                + (lock.isWrite && waiting.writers.count == 1
                    ? held.readers.strangers(of: claim.partyNumber) : [])
            agenda.addHolders(met.filter { contentions[$0] == nil })
        }
    }

    /// Adds all holders of a resource to the agenda. If the holders are very many, adds only those that have a
    /// contention or can get one.
    mutating func addHoldersToReview(at resource: Resource, _ held: LockQueue.ModeQueues) {
        guard locks.isGrouped(resource) else {
            agenda.addHolders(Array(held.readers) + Array(held.writers))
            return
        }
        locks.clearNonblocking(at: resource)
        for group in locks.groups(at: resource)?.active ?? [] {
            agenda.addHolders(group.kind.isBounded ? Array(group.contended) : group.all)
        }
        agenda.addContentionSlot(at: resource)
    }

    /// Y11: Adds the groups of holders that block a claim to the agenda.
    private mutating func addGroupsToReview(at lock: RequiredLock, by claim: Claim) {
        guard var grouping = locks.takeGroups(at: lock.resource) else { return }
        grouping.clearNonblocking { group in
            isBlocker(holder: group.first, asWriter: group.kind.isWrite, of: claim, asWriter: lock.isWrite)
        }
        // X2: Holders that change names must be identified although they never have a contention.
        agenda.addHolders(grouping.unbounded)
        locks.setGroups(grouping, at: lock.resource)
        agenda.addContentionSlot(at: lock.resource)
    }

    /// Adds to the agenda the given holders, except those that do not block the claim.
    private mutating func noteNewWaiter(_ holders: Set<ClaimID>, _ claim: Claim) {
        for id in holders {
            guard let holder = claims[id], isBlocker(holder, of: claim) else { continue }
            agenda.addHolder(id, blocking: claim.id)
        }
    }

    /// Called when a claim no longer waits. Adds to the agenda the holders with this `blockedClaim`, because each must
    /// find another claim that it blocks.
    mutating func addContendedToReview(by claim: Claim) {
        agenda.addHolders(contentions.holders(blocking: claim.id))
    }

    /// Reviews the holders in the agenda: begins, updates or ends their contentions.
    mutating func reviewContentions(_ effects: inout [Effect]) {
        let round = agenda.takeHolders()
        workCounter.add(round.count)
        var previous: ClaimID?
        var newcomers: [ClaimID] = []
        for id in round where id != previous {
            previous = id
            guard let holder = claims[id], holder.isHeld else { continue }
            if locks.hasGroups, holder.isBounded, contentions[id] == nil,
                !registry.isRelinquished(to: id)
            {
                newcomers.append(id)
            } else {
                review(holder, &effects)
            }
        }
        if !newcomers.isEmpty || agenda.hasContentionSlots { admitContentions(newcomers, &effects) }
        agenda.clearNewWaiters()
    }

    /// Y11: Begins contentions, for holders with the lowest numbers first, until the limit of each resource is
    /// reached.
    private mutating func admitContentions(_ newcomers: [ClaimID], _ effects: inout [Effect]) {
        var left = newcomers[...]
        var withoutCandidate: Set<Resource> = []
        while let (next, resource) = firstOfCandidates(left.first, &withoutCandidate) {
            if next == left.first { left.removeFirst() }
            if let holder = claims[next], holder.isHeld { review(holder, &effects) }
            // If this holder got no contention, it is marked as a holder that blocks no waiting claim. Without the
            // mark, the loop would find this holder a second time.
            if let resource, locks.nextUncontended(at: resource) == next {
                locks.markNonblocking(next, at: resource)
            }
        }
        for resource in withoutCandidate { endFullness(at: resource) }
    }

    /// Returns the holder with the lowest number that is allowed to begin a contention, and the resource that has room
    /// for this contention.
    private mutating func firstOfCandidates(
        _ newcomer: ClaimID?, _ withoutCandidate: inout Set<Resource>
    ) -> (ClaimID, Resource?)? {
        var first: (ClaimID, Resource?)? = newcomer.map { ($0, nil) }
        for resource in agenda.sortedContentionSlots {
            guard let candidate = candidate(at: resource) else {
                agenda.removeContentionSlot(at: resource)
                withoutCandidate.insert(resource)
                continue
            }
            if first.map({ candidate <= $0.0 }) ?? true { first = (candidate, resource) }
        }
        return first
    }

    /// Of the holders of a resource that block a waiting claim, returns the holder with the lowest number. Nil if there
    /// is none, or the resource has no room for a contention.
    private mutating func candidate(at resource: Resource) -> ClaimID? {
        guard let lockQueue = locks[resource], !lockQueue.waiting.isEmpty, hasRoom(at: resource) else {
            return nil
        }
        while let next = locks.nextUncontended(at: resource) {
            guard let holder = claims[next], let isWrite = holder.isWriting(resource) else { return nil }
            if blockedClaim(of: holder, at: RequiredLock(resource, isWrite: isWrite)) != nil { return next }
            locks.markNonblocking(next, at: resource)
        }
        return nil
    }

    private mutating func review(_ holder: Claim, _ effects: inout [Effect]) {
        // X4: A holder that is suspended for all claims blocks only writers, and only until both are identified.
        let isPassed = holder.isFullySuspended && (holder.onlyReads || holder.isIdentified)
        let blockedClaim = isPassed ? nil : blockedClaim(of: holder)
        guard blockedClaim != nil || registry.isRelinquished(to: holder.id) else {
            // All holders of one kind block the same claims. So if this holder blocks none, no holder of its kind
            // does.
            if locks.hasGroups, !isPassed, contentions[holder.id] != nil {
                holder.forEachRequiredLock { locks.markNonblocking(holder.id, at: $0.resource) }
            }
            setContention(of: holder, nil)
            if isPassed { leaveResourceContentions(holder) } else { markNonblocking(holder) }
            return
        }
        requestIdentity(holder.id, &effects)
        // Y1, Y7: Name changes, pending saves and fully suspended holders have no contention.
        guard holder.isBounded, !holder.isFullySuspended else { return markNonblocking(holder) }
        if contentions[holder.id] != nil {
            contentions.update(holder.id) { $0.blockedClaim = blockedClaim }
        } else {
            begin(contention: holder, by: blockedClaim)
        }
        // Y3: A reader of a background program is suspended as soon as another claim waits for it.
        if holder.onlyReads, holder.nature == .handle,
            families.party(of: holder.id)?.programClass == .background
        {
            suspend(holder.id, .yielded, &effects)
        }
    }

    private mutating func begin(contention holder: Claim, by blockedClaim: ClaimID?) {
        // Y2, Y7: Only handles are observed.
        let firstObservation = holder.nature == .handle ? now + bounds.firstObservationDelay : nil
        var since = beginning(of: holder)
        // Y11: While a resource has as many contentions as its limit allows, a new contention gets the start of the
        // first contention there.
        holder.forEachRequiredLock { lock in
            if let full = contentions.fullSince(at: lock.resource) { since = min(since, full) }
        }
        let contention = Contention(
            since: since, end: since + longestHold(of: holder), unchangedGrace: now + bounds.unchangedGrace,
            blockedClaim: blockedClaim,
            nextObservation: firstObservation, lastChange: now)
        setContention(of: holder, contention)
        rearm(holder.id)
    }

    /// Y6, Y10: How long a held claim may make other claims wait.
    func longestHold(of holder: Claim) -> TimeSpan {
        let hold = holder.ownBounds.hold ?? bounds.hold
        // Y10: Other claims wait at most `idle` for a handle that locks its file.
        if holder.accessPattern.contains(.locks) { return min(bounds.idle, hold) }
        return holder.isAware ? bounds.holdAware : hold
    }

    /// X6, Y10: Notes that the program of a handle locks the file.
    ///
    /// From now on, other handles that lock the file do not wait for this handle, and all other claims wait for it at
    /// most `idle`.
    mutating func noteLock(of id: ClaimID) {
        guard let claim = claims[id], claim.nature == .handle, !claim.accessPattern.contains(.locks) else {
            return
        }
        let isLast = locks.uncountHold(claim)
        claims.update(id) { $0.accessPattern.insert(.locks) }
        regroup(id)
        if claim.isHeld {
            if let changed = claims[id] { _ = locks.countHold(changed) }
            if contentions[id] != nil, let holder = claims[id] {
                let most = longestHold(of: holder)
                contentions.update(id) { $0.end = $0.since + most }
                rearm(id)
            }
            agenda.addHolder(id)
        } else {
            agenda.addGrantCandidate(id)
            addContendedToReview(by: claim)
        }
        // D2: The handle's program perhaps blocks fewer claims now, so the program's waiting claims may be in other
        // cycles.
        if claim.isHeld, isLast || !claim.isCountedHold, let party = families.party(of: id) {
            addRelativesToCandidates(of: party)
        }
        addAllDependencyTargets()
        releaseWatchers(of: id)
    }

    /// How many of the newest contended claims are searched for another contention of the same program.
    ///
    /// A later contention of a program gets the start of the program's first contention. So any contention that is found
    /// shows this start.
    private static let lookedAtForBeginning = 64

    /// Y6: Returns the moment at which a holder's contention begins.
    ///
    /// A holder can be granted before a claim that waits longer, because the holder's program has another handle of the
    /// item. In this case the holder's contention gets the start of the other handle's contention. Without this rule, a
    /// program could block other programs for ever: it would open a new handle before it closes the old handle.
    private func beginning(of holder: Claim) -> Instant {
        let isKeptOut = { (id: ClaimID) in claims[id].map { isBlocker(holder, of: $0) } ?? false }
        guard meetsEarlierWaiter(holder, where: isKeptOut) else { return now }
        var since = now
        let take = { (id: ClaimID) in
            guard let contention = contentions[id], contention.since < since, let other = claims[id],
                other.isAware == holder.isAware, holder.overlaps(with: other),
                holder.within.contains(id) || areOfOneProgram(other, holder)
            else { return }
            since = contention.since
        }
        if let party = families.party(of: holder.id), families.holders.hasOthers(than: holder.id, of: party) {
            holder.forEachRequiredLock {
                contentions.contended(at: $0.resource)?.forEachOfLast(Self.lookedAtForBeginning, take)
            }
        }
        holder.within.forEach(take)
        return since
    }

    /// One waiting claim that this holder blocks. If the holder still blocks the claim that was returned before,
    /// returns that claim.
    private func blockedClaim(of holder: Claim) -> ClaimID? {
        if let present = contentions[holder.id]?.blockedClaim, let claim = claims[present], !claim.isHeld,
            isBlocker(holder, of: claim)
        {
            return present
        }
        if let newcomer = agenda.newWaiter(for: holder.id), let claim = claims[newcomer], !claim.isHeld,
            isBlocker(holder, of: claim)
        {
            return newcomer
        }
        return holder.firstOfRequiredLocks { lock in
            // Y11: If the resource has no room for another contention, this holder needs no blocked claim.
            if locks.hasGroups, locks.isGrouped(lock.resource), holder.isBounded,
                contentions[holder.id] == nil,
                !hasRoom(at: lock.resource)
            {
                return nil
            }
            return blockedClaim(of: holder, at: lock)
        }
    }

    private func blockedClaim(of holder: Claim, at lock: RequiredLock) -> ClaimID? {
        guard let waiting = locks[lock.resource]?.waiting, !waiting.isEmpty else { return nil }
        if locks.hasGroups, locks.isNonblocking(holder.id, at: lock.resource) {
            return nil
        }
        let isKeptOut = { (id: ClaimID, isWrite: Bool) in
            claims[id].map {
                isBlocker(holder: holder.id, asWriter: lock.isWrite, of: $0, asWriter: isWrite)
            } ?? false
        }
        // By the seed, different holders choose different waiting claims. So when a waiting claim ends, only few
        // holders must choose another claim.
        return waiting.writers.someStranger(of: holder.partyNumber, seed: holder.id) { isKeptOut($0, true) }
            ?? (lock.isWrite
                ? waiting.readers.someStranger(of: holder.partyNumber, seed: holder.id) {
                    isKeptOut($0, false)
                }
                : nil)
    }

    /// Whether a holder blocks a waiting claim at any resource.
    func isBlocker(_ holder: Claim, of claim: Claim) -> Bool {
        claim.firstOfRequiredLocks { lock in
            guard let isWriting = holder.isWriting(lock.resource), isWriting || lock.isWrite,
                isBlocker(holder: holder.id, asWriter: isWriting, of: claim, asWriter: lock.isWrite)
            else { return nil }
            return true
        } ?? false
    }
}

/// Observations of contended holders, and their consequences.
extension Arbiter {
    mutating func observe(_ id: ClaimID, _ observation: Observation, _ effects: inout [Effect]) {
        // Q4: If the observed claim has no contention, no claim waits for it, and the observation has no effect.
        let now = now
        contentions.update(id) { $0.note(observation, at: now) }
        guard let contention = contentions[id], let claim = claims[id] else { return }
        let still = now.since(contention.lastChange)
        switch observation {
        // Y3: A holder that has nothing to lose is suspended for all claims when it is observed.
        case .clean:
            claims.update(id) { $0.isClean = true }
            suspend(id, .yielded, &effects)
        case .atEnd: suspend(id, .yielded, &effects)
        // Y9: A writer that has changed nothing is suspended for readers first, and for all claims after `idle`.
        case .unchanged(let position):
            if still >= bounds.idle {
                claims.update(id) { $0.isClean = true }
                suspend(id, .yielded, &effects)
            } else if claim.suspension == nil {
                suspendForReaders(id, hasRead: position > 0, &effects)
            }
        // Y4: A reader is suspended when its position has not changed for `readerIdle`.
        case .atEndUnconfirmed: if still >= bounds.readerIdle { suspend(id, .yielded, &effects) }
        case .reading: if still >= bounds.readerIdle { suspend(id, .readerStalled, &effects) }
        // Y5: A writer that has changed its file is suspended for readers when the file has not changed for `idle`. A
        // writer that has only emptied its file is not suspended here.
        case .emptied: break
        case .dirty: if still >= bounds.idle, claim.suspension == nil { suspend(id, .idle, &effects) }
        }
    }

    /// Y9: Suspends a writer for readers if the writer has read, or if the moment `unchangedGrace` is over. If not,
    /// plans an observation for that moment (Y2).
    private mutating func suspendForReaders(_ id: ClaimID, hasRead: Bool, _ effects: inout [Effect]) {
        guard let contention = contentions[id] else { return }
        if hasRead || now >= contention.unchangedGrace { return suspend(id, .unchanged, &effects) }
        guard let next = contention.nextObservation, contention.unchangedGrace < next else { return }
        contentions.update(id) { $0.nextObservation = contention.unchangedGrace }
        rearm(id)
    }

    /// Suspends a claim, and reviews its contention and the claims that waited for the claim.
    mutating func suspend(_ id: ClaimID, _ suspension: Suspension, _ effects: inout [Effect]) {
        // Y8: A suspension for readers can become a suspension for all claims. A suspended claim stays suspended until
        // it ends.
        guard let former = claims[id],
            former.suspension.map({ $0.isForReaders && !suspension.isForReaders }) ?? true
        else { return }
        let isLast = locks.uncountHold(former) || !former.isCountedHold
        claims.update(id) { $0.suspension = suspension }
        if let suspended = claims[id] {
            tellBeforeSuspension(of: suspended, &effects)
            if suspended.isFullySuspended { setContention(of: former, nil) }
        }
        regroup(id)
        if isLast, let party = families.party(of: id) { addRelativesToCandidates(of: party) }
        effects.append(.suspend(id, suspension))
        releaseWatchers(of: id)
        agenda.addHolder(id)
    }
}
