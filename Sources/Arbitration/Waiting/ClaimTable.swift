// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Every live claim.
///
/// Invariants, checked together with I4:
///
/// - A claim is under its own number, and stays there from ``add(_:)`` to ``remove(_:)``.
/// - `aware` and `batches` name exactly the live claims of these natures.
struct ClaimTable: Sendable {
    private var claims: [ClaimID: Claim] = [:]
    /// Live claims of nature `aware`, the only ones that name changes wait for.
    private(set) var aware: Set<ClaimID> = []
    /// Live claims of nature `batch`, which require no locks and so are in no lock queue.
    private(set) var batches: Set<ClaimID> = []

    var isEmpty: Bool { claims.isEmpty }
    var count: Int { claims.count }
    /// All claims, in no order.
    var all: Dictionary<ClaimID, Claim>.Values { claims.values }
    /// The numbers of all claims, in no order.
    var ids: Dictionary<ClaimID, Claim>.Keys { claims.keys }
    /// The number of entries of all indexes besides the claims themselves.
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

    /// Stores the new state of a live claim.
    mutating func replace(_ claim: Claim) { claims[claim.id] = claim }

    /// Changes a claim in place, if it is live.
    @inline(__always)
    mutating func update(_ id: ClaimID, _ body: (inout Claim) -> Void) {
        guard let entry = claims.index(forKey: id) else { return }
        body(&claims.values[entry])
    }

    /// X2: Notes that a claim is to be identified; returns whether it was not noted before.
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

/// The way of a claim that meets no other claim: it looks a claim up once and copies none.
extension ClaimTable {
    /// The place of a live claim, valid until the next claim is added or removed.
    typealias Place = Dictionary<ClaimID, Claim>.Index

    @inline(__always)
    func place(of id: ClaimID) -> Place? { claims.index(forKey: id) }

    /// The only item that the claim holds; nil if another record of the claim may exist.
    @inline(__always)
    mutating func uncontendedItem(at place: Place) -> ItemID? { claims.values[place].uncontendedItem() }

    /// Removes a claim that has an ``uncontendedItem(at:)``, and so is in no index.
    @inline(__always)
    mutating func removeUncontended(at place: Place) { claims.remove(at: place) }
}
