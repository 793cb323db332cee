// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The parties of all identified claims, and the claims that may be exempt from a party's.
///
/// Unidentified claims, which is nearly all of them, cost nothing here.
///
/// Invariants (I4):
///
/// - Each identified claim has its party here, and no other claim has one.
/// - Each of them is in one of the two indexes: in `holders` if it is held, in `waiters` if it waits.
/// - The party of each counts once for its number.
struct ProcessFamilies: Sendable {
    private var parties: [ClaimID: Party] = [:]
    private var numbers = PartyNumbers()
    private(set) var holders = ProcessFamilyIndex()
    private(set) var waiters = ProcessFamilyIndex()

    var isEmpty: Bool { parties.isEmpty }
    /// The number of identified claims.
    var count: Int { parties.count }
    /// The number of entries of all indexes besides the parties themselves.
    var countOfIndexes: Int { numbers.count + holders.count + waiters.count }

    /// The party of a claim; nil if it is not identified.
    func party(of claim: ClaimID) -> Party? { parties[claim] }

    /// The party of a claim; nil if there is no claim, or it is not identified.
    func party(of claim: ClaimID?) -> Party? { claim.flatMap { parties[$0] } }

    /// X1: Adds the party of a claim, and returns its number.
    mutating func identify(_ claim: ClaimID, as party: Party, isHeld: Bool) -> PartyNumber {
        parties[claim] = party
        if isHeld { holders.insert(claim, of: party) } else { waiters.insert(claim, of: party) }
        return numbers.join(party)
    }

    /// Moves a waiting claim to the holders; returns its party if it is identified.
    mutating func noteGrant(of claim: ClaimID) -> Party? {
        guard let party = parties[claim] else { return nil }
        waiters.remove(claim, of: party)
        holders.insert(claim, of: party)
        return party
    }

    /// Removes a claim that ends; returns its party if it is identified.
    mutating func remove(_ claim: ClaimID, isHeld: Bool) -> Party? {
        guard let party = parties.removeValue(forKey: claim) else { return nil }
        numbers.leave(party)
        if isHeld { holders.remove(claim, of: party) } else { waiters.remove(claim, of: party) }
        return party
    }
}
