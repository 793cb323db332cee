// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What is known of every live claim.
///
/// Plain bits on purpose: copying one counts no references.
struct Claim: Sendable {
    let id: ClaimID
    let nature: Request.Nature
    private(set) var first: Request.Part
    private(set) var second: Request.Part?

    var isHeld = false
    /// Whether `identify` was given, or nobody need be asked (X2, X3).
    var isAsked: Bool
    var isIdentified = false
    /// Whether it yielded as clean.
    var isClean = false
    /// Whether it may be held beside claims it meets (I1).
    var wentOver: Bool
    var suspension: Suspension?
    /// How the file looked when presenters were last told of this writer (N4).
    var toldStamp: UInt64?

    init(_ request: Request) {
        id = request.claim
        nature = request.nature
        first = request.first
        second = request.rest.first
        isAsked = request.nature == .episode
        wentOver = request.nature == .nameChange || request.nature == .episode
        joinParts()
    }

    /// Y1, Y7.
    var isBounded: Bool { nature == .handle || nature == .request || nature == .aware }
    /// T1: whether it goes ahead when its time runs out.
    func mayGoAhead(under policy: Policy) -> Bool { nature != .aware && (policy == .proceed || onlyReads) }
    var onlyReads: Bool { !first.access.isWrite && second?.access.isWrite != true }
    /// Whether everybody passes (Y3, Y4, Y6).
    var isFullySuspended: Bool { suspension.map { $0 != .idle } ?? false }

    func access(to item: ItemID) -> Access? {
        if first.item == item { return first.access }
        return second?.item == item ? second?.access : nil
    }

    /// Goes on with another item instead of this one (R1, R2).
    mutating func move(from item: ItemID, to other: ItemID) {
        if first.item == item { first = Request.Part(other, first.access, at: first.place, via: first.via) }
        if let part = second, part.item == item {
            second = Request.Part(other, part.access, at: part.place, via: part.via)
        }
        joinParts()
    }

    /// G1: two parts on one item are one.
    private mutating func joinParts() {
        guard let part = second, part.item == first.item else { return }
        if !first.access.isWrite { first = part }
        second = nil
    }

    /// Calls the body with each part; not an array, which would have to be allocated.
    @inline(__always)
    func forEachPart(_ body: (Request.Part) -> Void) {
        body(first)
        if let second { body(second) }
    }

    /// The first result that is not nil.
    @inline(__always)
    func firstOfParts<Result>(_ body: (Request.Part) -> Result?) -> Result? {
        body(first) ?? second.flatMap(body)
    }
}

/// What is known of a claim while it waits.
struct Wait: Sendable {
    let began: Instant
    /// Moves with the progress of presenters that are asked for it (P4).
    var deadline: Instant
    /// A claim that stands in its way; nil while that is being looked for, and while presenters are asked.
    var watched: ClaimID?
}

/// What is known of a holder while it keeps somebody out.
struct Contest: Sendable {
    /// When everybody passes (Y6).
    let end: Instant
    /// One who is kept out; nil if a presenter alone waits for it to be over.
    var contestant: ClaimID?
    /// When it is looked at next; nil if it never is (Y7).
    var nextLook: Instant?
    var seen: Observation?
    /// The contest's beginning, or when something else was seen than before (Y4, Y5).
    var lastChange: Instant
    var alarm: Instant?
}
