// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Checks of the invariants, which debug builds run after each event.
extension Arbiter {
    /// The largest number of claims, directories or presenters for which the invariants are checked.
    ///
    /// The cost of a check is quadratic, so it runs only in small tests.
    static let checkedClaims = 16

    func checkInvariants() -> Bool {
        for claim in claims.all {
            if claim.isHeld {
                checkHolder(claim)
            } else {
                checkWaiter(claim)
            }
        }
        checkCounts()
        return true
    }

    private func checkHolder(_ holder: Claim) {
        var (keepsOutSomebody, keepsOutWhereIsRoom) = (false, false)
        for other in claims.all where other.id != holder.id {
            holder.forEachRequiredLock { lock in
                guard let isWriting = other.isWriting(lock.resource), isWriting || lock.isWrite else {
                    return
                }
                if !other.isHeld {
                    guard keepsOut(holder, other, asWriter: isWriting) else { return }
                    keepsOutSomebody = true
                    if hasRoom(at: lock.resource) { keepsOutWhereIsRoom = true }
                    return
                }
                let isExcused = holder.mayOverlap || other.mayOverlap || areExempt(holder, other)
                assert(isExcused || holder.suspension != nil || other.suspension != nil, "I1")
            }
        }
        let isAwaited = keepsOutSomebody || registry.isRelinquished(to: holder.id)
        if contentions[holder.id] != nil { return assert(isAwaited && holder.isBounded, "I3") }
        assert(!holder.isBounded || !registry.isRelinquished(to: holder.id), "I3: relinquished")
        assert(!holder.isBounded || !keepsOutWhereIsRoom, "I3: keeps out")
    }

    private func checkWaiter(_ claim: Claim) {
        guard let watched = waits[claim.id]?.watched else {
            let isAsking =
                waits.toIdentify.contains(claim.id) && !claim.isIdentified
                || registry.consultations[claim.id] != nil
            return assert(isAsking && !registry.isSettled(claim.id), "I2: watches no claim")
        }
        assert(waits.isListed(claim.id, watching: watched), "I2: is not among the watchers")
        assert(findBlocker(of: claim) != nil, "I2: could be granted")
        assert(claims[watched] != nil, "I2: watches a claim that has ended")
    }

    private func checkCounts() {
        let requiredLocks = claims.all.reduce(0) { $0 + $1.requiredLocks.count }
        assert(requiredLocks == locks.countOfPlaces, "I4: lock queues")
        assert(!locks.hasEmptyQueue, "I4: empty lock queue")
        assert(waits.count == claims.all.count { !$0.isHeld }, "I4: waits")
        assert(families.count == claims.all.count { $0.isIdentified }, "I4: parties")
        assert(agenda.isEmpty, "I4: something is left to do")
        assert(
            contentions.blockedClaims.allSatisfy { waits.contains($0) }, "I3: contestant")
        assert(claims.aware == Set(claims.all.filter { $0.nature == .aware }.map(\.id)), "I4: aware claims")
        let inner = claims.all.filter { !$0.isHeld }.reduce(0) { $0 + $1.within.count }
        assert(inner == waitForGraph.countOfNested, "I4: nested")
        checkSubtreeLocks()
        assert(waitForGraph.schedule.due != nil || firstCycle() == nil, "I6: a cycle is left")
        if tree.count > Self.checkedClaims || registry.records.count > Self.checkedClaims {
            return checkDesk()
        }
        tree.checkInvariants(
            presenters: registry.records.values.compactMap { record in
                record.item.map { ($0, record.place.directory) }
            })
        checkDesk()
    }

    /// S4: Subtree locks are counted correctly, and only directories with a subtree lock have locks on their contents.
    private func checkSubtreeLocks() {
        var counted: [ItemID: Int] = [:]
        for claim in claims.all {
            claim.forEachRequiredLock { lock in
                if lock.resource.isContents, lock.isWrite { counted[lock.resource.item, default: 0] += 1 }
                let isIdle = lock.resource.isContents && locks.subtreeLock(of: lock.resource.item) == nil
                assert(!isIdle, "I4: required locks in contents without a subtree lock")
            }
        }
        assert(counted == locks.subtreeClaims, "I4: subtree locks")
    }

    private func checkDesk() {
        let listed = registry.records.values.flatMap(\.accessSessions)
        assert(
            Set(listed) == Set(registry.accessSessions.keys) && listed.count == registry.accessSessions.count,
            "I5: access sessions")
        for accessSession in registry.accessSessions.values {
            assert(
                accessSession.members.allSatisfy {
                    registry.consultations[$0]?.accessSessions.contains(accessSession.id) ?? false
                }, "I5: member"
            )
            assert(
                accessSession.end == nil || accessSession.members.isEmpty, "I5: ends while it has members")
            assert(
                !accessSession.members.isEmpty || accessSession.end != nil || accessSession.question != nil,
                "I5: never ends")
        }
        for (claim, consultation) in registry.consultations {
            assert(claims[claim] != nil, "I5: consultation without a claim")
            assert(
                consultation.accessSessions.allSatisfy {
                    registry.accessSessions[$0]?.members.contains(claim) ?? false
                }, "I5: consultation")
        }
        assert(registry.questions.values.allSatisfy { registry.records[$0.presenter] != nil }, "I5: question")
        let owed = registry.questions.values.reduce(0) { $0 + registry.processes(of: $1.presenter).count }
        assert(owed == registry.openQuestionCounts.values.reduce(0, +), "I5: debtors")
        let shown = registry.presented.values.reduce(0) { $0 + $1.count }
        assert(shown == registry.records.values.count { $0.item != nil }, "I5: presented")
        for (item, all) in registry.presented {
            let isPaused = { [registry] (id: PresenterID) in registry.records[id]?.pause != nil }
            let notified = all.contains(where: isPaused) ? all.filter { !isPaused($0) } : nil
            assert(registry.pauses.notified[item] == notified, "I5: paused")
        }
        let speaking = registry.records.values.filter {
            $0.mute != nil && $0.item != nil && $0.answersWriters
        }
        assert(
            Set(speaking.compactMap(\.item)).count == registry.mutedRepresentatives.count,
            "I5: representatives")
        let asked = registry.records.values.flatMap(\.questions)
        assert(
            Set(asked) == Set(registry.questions.keys) && asked.count == registry.questions.count,
            "I5: questions")
    }
}
