// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What must be true between events; compared in debug builds.
extension Arbiter {
    /// The comparison is quadratic: larger worlds are not checked, the small ones in the tests are.
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
        var keepsOutSomebody = false
        for other in claims.values where other.id != holder.id {
            holder.forEachPart { part in
                guard let access = other.access(to: part.item), !access.isCompatible(with: part.access) else {
                    return
                }
                if !other.isHeld {
                    if keepsOut(holder, other, access) { keepsOutSomebody = true }
                    return
                }
                let isExcused = holder.wentOver || other.wentOver || areExempt(holder, other)
                assert(isExcused || holder.suspension != nil || other.suspension != nil, "I1")
            }
        }
        assert((contests[holder.id] != nil) == (keepsOutSomebody && holder.isBounded), "I3")
    }

    private func checkWaiter(_ claim: Claim) {
        guard let watched = waits[claim.id]?.watched else { return assertionFailure("I2: watches nobody") }
        assert(watchers[watched]?.contains(claim.id) ?? false, "I2: is not among the watchers")
        assert(inTheWay(of: claim) != nil, "I2: could be granted")
        assert(claims[watched] != nil, "I2: watches nobody who lives")
    }

    private func checkCounts() {
        let parts = claims.values.reduce(0) { $0 + ($1.second == nil ? 1 : 2) }
        let places = dockets.values.reduce(0) { sum, docket in
            sum + docket.held.readers.count + docket.held.writers.count
                + docket.waiting.readers.count + docket.waiting.writers.count
        }
        assert(parts == places, "I4: dockets")
        assert(!dockets.values.contains(where: \.isEmpty), "I4: empty docket")
        assert(waits.count == claims.values.count { !$0.isHeld }, "I4: waits")
        assert(parties.count == claims.values.count { $0.isIdentified }, "I4: parties")
        assert(unsettled.isEmpty && shaken.isEmpty && newHolders.isEmpty, "I4: something is left to do")
        assert(contests.values.allSatisfy { waits[$0.contestant] != nil }, "I3: contestant")
    }
}
