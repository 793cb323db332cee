// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The short way (G2).
extension Arbiter {
    /// Grants a claim on one item that has no other claims, and returns whether it was one.
    mutating func claimAlone(_ request: Request, _ effects: inout [Effect]) -> Bool {
        guard request.isSimple, request.nature != .batch, hasOneStake(request.first),
            !mayConcernPresenters(request)
        else { return false }
        let access = request.first.access
        guard dockets[.item(request.first.item), default: Docket()].enterAlone(request.claim, access.isWrite)
        else { return false }
        var claim = Claim(request)
        claim.isHeld = true
        add(claim)
        effects.append(.grant(request.claim, Grant(basis: .free)))
        return true
    }

    /// Whether the item is all there is to stake (S1 to S3), as it nearly always is.
    private func hasOneStake(_ part: Request.Part) -> Bool {
        if tree.isEmpty { return true }
        return disputed.isEmpty && tree.unit(of: part.item, at: part.place) == nil
            && !(part.access.isStructural && tree.isDirectory(part.item))
    }

    /// Whether anybody may have to be asked about a part that is in no package, and no structural write of a directory.
    private func mayConcernPresenters(_ request: Request) -> Bool {
        if desk.isEmpty { return false }
        let part = request.first
        return desk.presented[part.item] != nil
            || (part.access.isDeletion && desk.agreeingToDeletions > 0)
    }

    /// Ends a claim on one item that was alone there, and returns whether it was one.
    mutating func endAlone(_ id: ClaimID) -> Bool {
        guard let entry = claims.index(forKey: id) else { return true }
        // In place: to copy a docket costs more than all the rest.
        guard let item = claims.values[entry].itemHeldAlone(), let place = dockets.index(forKey: .item(item)),
            dockets.values[place].isOneHolders()
        else { return false }
        dockets.remove(at: place)
        claims.remove(at: entry)
        return true
    }
}
