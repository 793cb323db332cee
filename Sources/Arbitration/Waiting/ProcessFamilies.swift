// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The parties of all identified claims, with indexes that find the claims that may be exempt from a claim.
///
/// Nearly all claims are never identified, and have no record in this value.
///
/// Invariants (I4):
///
/// - `parties` has the party of each identified claim, and of no other claim.
/// - Each identified claim is in one of the two indexes: in `holders` if it is held, in `waiters` if it waits.
/// - Each identified claim is counted once under the number of its party.
struct ProcessFamilies: Sendable {
    private var parties: [ClaimID: Party] = [:]
    private var numbers = PartyNumbers()
    private(set) var holders = ProcessFamilyIndex()
    private(set) var waiters = ProcessFamilyIndex()

    var isEmpty: Bool { parties.isEmpty }
    /// The number of identified claims.
    var count: Int { parties.count }
    /// The number of entries of all indexes; the parties themselves are not counted.
    var countOfIndexes: Int { numbers.count + holders.count + waiters.count }

    /// The party of a claim; nil if the claim is not identified.
    func party(of claim: ClaimID) -> Party? { parties[claim] }

    /// The party of a claim; nil if there is no claim, or the claim is not identified.
    func party(of claim: ClaimID?) -> Party? { claim.flatMap { parties[$0] } }

    /// X1: Stores the party of a claim. Returns the number of the party.
    mutating func identify(_ claim: ClaimID, as party: Party, isHeld: Bool) -> PartyNumber {
        parties[claim] = party
        if isHeld { holders.insert(claim, of: party) } else { waiters.insert(claim, of: party) }
        return numbers.join(party)
    }

    /// Moves a claim from the waiting claims to the holders. Returns its party, or nil if it is not identified.
    mutating func noteGrant(of claim: ClaimID) -> Party? {
        guard let party = parties[claim] else { return nil }
        waiters.remove(claim, of: party)
        holders.insert(claim, of: party)
        return party
    }

    /// Removes a claim that ends. Returns its party, or nil if it is not identified.
    mutating func remove(_ claim: ClaimID, isHeld: Bool) -> Party? {
        guard let party = parties.removeValue(forKey: claim) else { return nil }
        numbers.leave(party)
        if isHeld { holders.remove(claim, of: party) } else { waiters.remove(claim, of: party) }
        return party
    }
}
