// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What must be true between events; compared in debug builds.
extension Arbiter {
    /// The comparison is quadratic: worlds with more claims, directories or presenters are not checked, the small ones in
    /// the tests are.
    static let checkedClaims = 16

    func checkInvariants() -> Bool {
        for claim in claims.values {
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
        for other in claims.values where other.id != holder.id {
            holder.forEachStake { stake in
                guard let isWriting = other.isWriting(stake.resource), isWriting || stake.isWrite else {
                    return
                }
                if !other.isHeld {
                    guard keepsOut(holder, other, asWriter: isWriting) else { return }
                    keepsOutSomebody = true
                    if hasRoom(at: stake.resource) { keepsOutWhereIsRoom = true }
                    return
                }
                let isExcused = holder.wentOver || other.wentOver || areExempt(holder, other)
                assert(isExcused || holder.suspension != nil || other.suspension != nil, "I1")
            }
        }
        let isAwaited = keepsOutSomebody || desk.isRelinquished(to: holder.id)
        if contests[holder.id] != nil { return assert(isAwaited && holder.isBounded, "I3") }
        assert(!holder.isBounded || !desk.isRelinquished(to: holder.id), "I3: relinquished")
        assert(!holder.isBounded || !keepsOutWhereIsRoom, "I3: keeps out")
    }

    private func checkWaiter(_ claim: Claim) {
        guard let watched = waits[claim.id]?.watched else {
            let isAsking =
                unnamed.contains(claim.id) && !claim.isIdentified || desk.inquiries[claim.id] != nil
            return assert(isAsking && !desk.isSettled(claim.id), "I2: watches nobody")
        }
        assert(watchers[watched]?.contains(claim.id) ?? false, "I2: is not among the watchers")
        assert(inTheWay(of: claim) != nil, "I2: could be granted")
        assert(claims[watched] != nil, "I2: watches nobody who lives")
    }

    private func checkCounts() {
        let stakes = claims.values.reduce(0) { $0 + $1.stakes.count }
        let places = dockets.values.reduce(0) { sum, docket in
            sum + docket.held.readers.count + docket.held.writers.count
                + docket.waiting.readers.count + docket.waiting.writers.count
        }
        assert(stakes == places, "I4: dockets")
        assert(!dockets.values.contains(where: \.isEmpty), "I4: empty docket")
        assert(waits.count == claims.values.count { !$0.isHeld }, "I4: waits")
        assert(parties.count == claims.values.count { $0.isIdentified }, "I4: parties")
        assert(
            unsettled.isEmpty && shaken.isEmpty && newHolders.isEmpty && suspects.isEmpty && touched.isEmpty
                && vacancies.isEmpty,
            "I4: something is left to do")
        assert(
            contests.contestants.allSatisfy { waits[$0] != nil }, "I3: contestant")
        assert(aware == Set(claims.values.filter { $0.nature == .aware }.map(\.id)), "I4: aware claims")
        let inner = claims.values.filter { !$0.isHeld }.reduce(0) { $0 + $1.within.count }
        assert(inner == nested.values.reduce(0) { $0 + $1.count }, "I4: nested")
        checkDisputes()
        assert(cycleWatch.due != nil || firstCycle() == nil, "I6: a cycle is left")
        if tree.count > Self.checkedClaims || desk.records.count > Self.checkedClaims { return checkDesk() }
        tree.checkInvariants(
            presenters: desk.records.values.compactMap { record in
                record.item.map { ($0, record.place.directory) }
            })
        checkDesk()
    }

    /// S4.
    private func checkDisputes() {
        var counted: [ItemID: Int] = [:]
        for claim in claims.values {
            claim.forEachStake { stake in
                if stake.resource.isContents, stake.isWrite { counted[stake.resource.item, default: 0] += 1 }
                let isIdle = stake.resource.isContents && disputed[stake.resource.item] == nil
                assert(!isIdle, "I4: stakes in contents that nobody disputes")
            }
        }
        assert(counted == disputed.mapValues(\.claims), "I4: disputes")
    }

    private func checkDesk() {
        let listed = desk.records.values.flatMap(\.turns)
        assert(Set(listed) == Set(desk.turns.keys) && listed.count == desk.turns.count, "I5: turns")
        for turn in desk.turns.values {
            assert(
                turn.members.allSatisfy { desk.inquiries[$0]?.turns.contains(turn.id) ?? false }, "I5: member"
            )
            assert(turn.end == nil || turn.members.isEmpty, "I5: ends while somebody is there")
            assert(!turn.members.isEmpty || turn.end != nil || turn.question != nil, "I5: never ends")
        }
        for (claim, inquiry) in desk.inquiries {
            assert(claims[claim] != nil, "I5: inquiry of nobody")
            assert(
                inquiry.turns.allSatisfy { desk.turns[$0]?.members.contains(claim) ?? false }, "I5: inquiry")
        }
        assert(desk.questions.values.allSatisfy { desk.records[$0.presenter] != nil }, "I5: question")
        let owed = desk.questions.values.reduce(0) { $0 + desk.processes(of: $1.presenter).count }
        assert(owed == desk.debtors.values.reduce(0, +), "I5: debtors")
        let shown = desk.presented.values.reduce(0) { $0 + $1.count }
        assert(shown == desk.records.values.count { $0.item != nil }, "I5: presented")
        for (item, all) in desk.presented {
            let isPaused = { [desk] (id: PresenterID) in desk.records[id]?.pause != nil }
            let listening = all.contains(where: isPaused) ? all.filter { !isPaused($0) } : nil
            assert(desk.pauses.listening[item] == listening, "I5: paused")
        }
        let speaking = desk.records.values.filter { $0.mute != nil && $0.item != nil && $0.answersWriters }
        assert(Set(speaking.compactMap(\.item)).count == desk.spokesmen.count, "I5: spokesmen")
        let asked = desk.records.values.flatMap(\.questions)
        assert(Set(asked) == Set(desk.questions.keys) && asked.count == desk.questions.count, "I5: questions")
    }
}
