// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The short way (G2).
extension Arbiter {
    /// Grants a claim on one item that has no other claims, and returns whether it was one.
    mutating func grantUncontended(_ request: ClaimRequest, _ effects: inout [Effect]) -> Bool {
        guard request.isSimple, request.nature != .batch, needsOneLock(request.first),
            !mayConcernPresenters(request)
        else { return false }
        let access = request.first.access
        guard
            lockQueues[.item(request.first.item), default: LockQueue()].enterUncontended(
                request.claim, access.isWrite)
        else { return false }
        var claim = Claim(request)
        claim.isHeld = true
        add(claim)
        effects.append(.grant(request.claim, Grant(basis: .free)))
        return true
    }

    /// Whether the item is all there is to stake (S1 to S3), as it nearly always is.
    private func needsOneLock(_ part: ClaimRequest.Part) -> Bool {
        if tree.isEmpty { return true }
        return subtreeLocks.isEmpty && tree.outermostPackage(of: part.item, at: part.place) == nil
            && !(part.access.isStructural && tree.isDirectory(part.item))
    }

    /// Whether anybody may have to be asked about a part that is in no package, and no structural write of a directory.
    private func mayConcernPresenters(_ request: ClaimRequest) -> Bool {
        if registry.isEmpty { return false }
        let part = request.first
        return registry.presented[part.item] != nil
            || (part.access.isDeletion && registry.agreeingToDeletions > 0)
    }

    /// Ends a claim on one item that was alone there, and returns whether it was one.
    mutating func endUncontended(_ id: ClaimID) -> Bool {
        guard let entry = claims.index(forKey: id) else { return true }
        // In place: to copy a docket costs more than all the rest.
        guard let item = claims.values[entry].uncontendedItem(),
            let place = lockQueues.index(forKey: .item(item)),
            lockQueues.values[place].hasSingleHolder()
        else { return false }
        lockQueues.remove(at: place)
        claims.remove(at: entry)
        return true
    }
}
