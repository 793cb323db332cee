// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The fast path (G2).
extension Arbiter {
    /// Grants a claim on one item without other claims; returns false if it is not such a claim.
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

    /// Whether the item is the only required lock (S1 to S3), as in nearly all cases.
    private func needsOneLock(_ part: ClaimRequest.Part) -> Bool {
        if tree.isEmpty { return true }
        return !locks.hasSubtreeLocks && tree.outermostPackage(of: part.item, at: part.place) == nil
            && !(part.access.isStructural && tree.isDirectory(part.item))
    }

    /// Whether a presenter may have to be asked; only for a part outside packages that is no structural write of a
    /// directory.
    private func mayConcernPresenters(_ request: ClaimRequest) -> Bool {
        if registry.isEmpty { return false }
        let part = request.first
        return registry.presented[part.item] != nil
            || (part.access.isDeletion && registry.agreeingToDeletions > 0)
    }

    /// Ends a claim on one item without other claims; returns false if it is not such a claim.
    mutating func endUncontended(_ id: ClaimID) -> Bool {
        guard let entry = claims.place(of: id) else { return true }
        guard let item = claims.uncontendedItem(at: entry), locks.releaseUncontended(.item(item)) else {
            return false
        }
        claims.removeUncontended(at: entry)
        return true
    }
}
