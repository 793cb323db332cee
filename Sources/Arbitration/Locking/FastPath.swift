// SPDX-License-Identifier: Apache-2.0
import Coordination

/// G2: The fast path for a claim on an item without other claims.
extension Arbiter {
    /// Grants a claim if it needs only one item, and no other claim needs this item. If not, changes nothing and
    /// returns false.
    mutating func grantUncontended(_ request: ClaimRequest, _ effects: inout [Effect]) -> Bool {
        guard request.isSimple, request.nature != .batch, needsOneLock(request.first),
            !mayConcernPresenters(request)
        else { return false }
        let access = request.first.access
        guard
            locks.holdUncontended(request.claim, .item(request.first.item), isWrite: access.isWrite)
        else { return false }
        var claim = Claim(request)
        claim.isHeld = true
        add(claim)
        effects.append(.grant(request.claim, Grant(basis: .free)))
        return true
    }

    /// S1 to S3: Whether the claim needs only the lock on its item, as nearly all claims do.
    private func needsOneLock(_ part: ClaimRequest.Part) -> Bool {
        if tree.isEmpty { return true }
        return !locks.hasSubtreeLocks && tree.outermostPackage(of: part.item, at: part.place) == nil
            && !(part.access.isStructural && tree.isDirectory(part.item))
    }

    /// Whether a presenter may have to be asked. Must be called only for a part for which `needsOneLock` is true.
    private func mayConcernPresenters(_ request: ClaimRequest) -> Bool {
        if registry.isEmpty { return false }
        let part = request.first
        return registry.presented[part.item] != nil
            || (part.access.isDeletion && registry.agreeingToDeletions > 0)
    }

    /// Ends a claim if it needs only one item, and no other claim needs this item. If not, changes nothing and returns
    /// false.
    mutating func endUncontended(_ id: ClaimID) -> Bool {
        guard let entry = claims.place(of: id) else { return true }
        guard let item = claims.uncontendedItem(at: entry), locks.releaseUncontended(.item(item)) else {
            return false
        }
        claims.removeUncontended(at: entry)
        return true
    }
}
