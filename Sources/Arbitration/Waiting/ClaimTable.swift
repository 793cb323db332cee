// SPDX-License-Identifier: Apache-2.0
import Coordination

/// All claims, held and waiting.
///
/// Invariants, checked together with I4:
///
/// - A claim is stored under its own number, from ``add(_:)`` to ``remove(_:)``.
/// - `aware` and `batches` have exactly the claims of these natures.
struct ClaimTable: Sendable {
    private var claims: [ClaimID: Claim] = [:]
    /// The claims of nature `aware`, held and waiting. Name changes wait only for these claims.
    private(set) var aware: Set<ClaimID> = []
    /// The claims of nature `batch`. They require no locks, so they are in no lock queue.
    private(set) var batches: Set<ClaimID> = []

    var isEmpty: Bool { claims.isEmpty }
    var count: Int { claims.count }
    /// All claims, in no order.
    var all: Dictionary<ClaimID, Claim>.Values { claims.values }
    /// The numbers of all claims, in no order.
    var ids: Dictionary<ClaimID, Claim>.Keys { claims.keys }
    /// The number of entries of all indexes; the claims themselves are not counted.
    var countOfIndexes: Int { aware.count + batches.count }

    subscript(id: ClaimID) -> Claim? {
        @inline(__always) get { claims[id] }
    }

    @inline(__always)
    mutating func add(_ claim: Claim) {
        let previous = claims.updateValue(claim, forKey: claim.id)
        precondition(previous == nil, "a claim is made once")
        if claim.nature == .aware { aware.insert(claim.id) }
        if claim.nature == .batch { batches.insert(claim.id) }
    }

    /// Stores the new state of a claim.
    mutating func replace(_ claim: Claim) { claims[claim.id] = claim }

    /// Changes a claim without copying it. Does nothing if the claim has ended.
    @inline(__always)
    mutating func update(_ id: ClaimID, _ body: (inout Claim) -> Void) {
        guard let entry = claims.index(forKey: id) else { return }
        body(&claims.values[entry])
    }

    /// X2: Notes that the effect `identify` is sent for a claim. Returns false if the effect was sent before.
    mutating func requestIdentity(of id: ClaimID) -> Bool {
        guard let entry = claims.index(forKey: id), !claims.values[entry].isIdentityRequested else {
            return false
        }
        claims.values[entry].isIdentityRequested = true
        return true
    }

    mutating func remove(_ claim: Claim) {
        if claim.nature == .aware { aware.remove(claim.id) }
        if claim.nature == .batch { batches.remove(claim.id) }
        claims.removeValue(forKey: claim.id)
    }
}

/// The fast path for a claim without competing claims: one look-up of the claim, and no copy.
extension ClaimTable {
    /// The place of a claim in the table, valid until the next claim is added or removed.
    typealias Place = Dictionary<ClaimID, Claim>.Index

    @inline(__always)
    func place(of id: ClaimID) -> Place? { claims.index(forKey: id) }

    /// The item of a claim with only one item, if no table has the claim except this one and one lock queue. Else nil.
    @inline(__always)
    mutating func uncontendedItem(at place: Place) -> ItemID? { claims.values[place].uncontendedItem() }

    /// Removes a claim for which ``uncontendedItem(at:)`` has returned an item, so that the claim is in no index.
    @inline(__always)
    mutating func removeUncontended(at place: Place) { claims.remove(at: place) }
}
