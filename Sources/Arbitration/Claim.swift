// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What is known of every live claim.
///
/// Plain bits for nearly all of them on purpose: copying one counts no references.
struct Claim: Sendable {
    /// What few claims have.
    private final class Extra: Sendable {
        let rest: [Request.Part]
        let stakes: [Stake]
        let within: [ClaimID]
        let answering: QuestionID?

        init(_ rest: [Request.Part], _ stakes: [Stake], within: [ClaimID], answering: QuestionID?) {
            self.rest = rest
            self.stakes = stakes
            self.within = within
            self.answering = answering
        }
    }

    let id: ClaimID
    let nature: Request.Nature
    /// X6, Y10.
    var conduct: Request.Conduct
    private(set) var first: Request.Part
    /// Nil for a claim whose one stake is the item of its one part.
    private var extra: Extra?

    var isHeld = false
    /// Whether `identify` was given, or nobody need be asked (X2, X3).
    var isAsked: Bool
    var isIdentified = false
    /// Zero until it is identified.
    var kin: Kin = 0
    /// Whether it let writers pass, and nothing was ever seen to have changed under it (Y3, Y9).
    var isClean = false
    /// Whether it may be held beside claims it meets (I1).
    var wentOver: Bool
    /// Whether it was granted before its turn came (T1, T2).
    var hasProceeded = false
    /// Whether its presenters were chosen (P1).
    var isPut = false
    /// Whether nobody who waits stands in its way (D3).
    var passes = false
    var suspension: Suspension?
    /// How the file looked when presenters were last told of this writer (N4).
    var toldStamp: UInt64?

    init(_ request: Request) {
        id = request.claim
        nature = request.nature
        conduct = request.nature == .handle ? request.conduct : []
        first = request.first
        isAsked = request.nature == .episode
        wentOver = request.nature == .nameChange || request.nature == .episode
        guard !request.isSimple || nature == .batch else { return }
        extra = Extra(request.rest, [], within: request.within, answering: request.answering)
    }

    /// Y1, Y7, B3.
    var isBounded: Bool { nature != .nameChange && nature != .episode }
    /// Whether it was asked for over the control socket.
    var isAware: Bool { nature == .aware || nature == .batch }
    /// T1: whether it goes ahead when its time runs out.
    func mayGoAhead(under policy: Policy) -> Bool { !isAware && (policy == .proceed || onlyReads) }
    var onlyReads: Bool { firstOfParts { $0.access.isWrite ? true : nil } == nil }
    /// Whether everybody passes (Y3, Y4, Y6, D3).
    var isFullySuspended: Bool { suspension.map { !$0.isForReaders } ?? false }
    /// D1: what this claim was made within.
    var within: [ClaimID] { extra?.within ?? [] }
    var answering: QuestionID? { extra?.answering }
    var isOnOneItem: Bool { extra == nil }

    /// The one item that it holds, if it can have left no traces elsewhere: who was asked about has met somebody.
    ///
    /// Mutating, as ``Docket/isOneHolders()`` is, so that it is looked at where it is instead of in a copy.
    mutating func itemHeldAlone() -> ItemID? {
        extra == nil && !isAsked && !isAware ? first.item : nil
    }

    /// G5: whether it has a part that writes an item, not just something in the same package.
    func isWritingPart(_ item: ItemID) -> Bool {
        firstOfParts { $0.item == item && $0.access.isWrite ? true : nil } ?? false
    }

    /// Whether it stakes something that another one stakes as well.
    func shares(stakeWith other: Claim) -> Bool {
        firstOfStakes { stake in other.isWriting(stake.resource).map { _ in true } } ?? false
    }

    /// Whether a part takes an item away; a handle that replaces has created a file under a name that nobody had.
    func deletes(_ part: Request.Part) -> Bool {
        part.access.isDeletion && !(nature == .handle && part.access == .write(.forReplacing))
    }

    /// Whether it stakes this to write; nil if it does not stake it at all.
    func isWriting(_ resource: Resource) -> Bool? {
        firstOfStakes { $0.resource == resource ? $0.isWrite : nil }
    }

    /// X6: whether both may have the item at once, whoever they are.
    func isAtEase(beside other: Claim) -> Bool {
        guard !(conduct.isEmpty && other.conduct.isEmpty), nature == .handle, other.nature == .handle,
            first.item == other.first.item
        else { return false }
        if conduct.contains(.locks), other.conduct.contains(.locks) { return true }
        return conduct.contains(.appends) && other.isPrefixEnough
            || other.conduct.contains(.appends) && isPrefixEnough
    }

    /// Whether it bears that the item becomes longer.
    private var isPrefixEnough: Bool {
        conduct.contains(.appends) || onlyReads
    }

    /// S1 to S3. An empty list means the one stake that each claim with one part has.
    mutating func setStakes(_ stakes: [Stake]) {
        let rest = extra?.rest ?? []
        let isPlain = stakes.count == 1 && rest.isEmpty && within.isEmpty && answering == nil
        extra = isPlain ? nil : Extra(rest, stakes, within: within, answering: answering)
    }

    /// Puts other parts in the place of its own; its stakes must be set afterwards.
    mutating func setParts(_ body: (Request.Part) -> Request.Part) {
        first = body(first)
        guard let extra else { return }
        self.extra = Extra(
            extra.rest.map(body), extra.stakes, within: extra.within, answering: extra.answering)
    }

    /// Calls the body with each part; not an array, which would have to be allocated.
    @inline(__always)
    func forEachPart(_ body: (Request.Part) -> Void) {
        body(first)
        if let extra { extra.rest.forEach(body) }
    }

    /// The first result that is not nil.
    @inline(__always)
    func firstOfParts<Result>(_ body: (Request.Part) -> Result?) -> Result? {
        if let result = body(first) { return result }
        guard let extra else { return nil }
        for part in extra.rest { if let result = body(part) { return result } }
        return nil
    }

    @inline(__always)
    func forEachStake(_ body: (Stake) -> Void) {
        guard let extra else { return body(ownStake) }
        extra.stakes.forEach(body)
    }

    @inline(__always)
    func firstOfStakes<Result>(_ body: (Stake) -> Result?) -> Result? {
        guard let extra else { return body(ownStake) }
        for stake in extra.stakes { if let result = body(stake) { return result } }
        return nil
    }

    /// What it stakes, in an array.
    var stakes: [Stake] { extra?.stakes ?? [ownStake] }

    private var ownStake: Stake { Stake(.item(first.item), isWrite: first.access.isWrite) }
}

/// What is known of a claim while it waits.
struct Wait: Sendable {
    let began: Instant
    /// Moves with the progress of presenters that are asked for it (P4).
    var deadline: Instant
    /// A claim that stands in its way; nil while that is being looked for, and while presenters are asked.
    var watched: ClaimID?
}
