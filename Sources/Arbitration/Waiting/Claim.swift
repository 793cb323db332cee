// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What is known of every live claim.
///
/// Plain bits for nearly all of them on purpose: copying one counts no references.
struct Claim: Sendable {
    /// What few claims have.
    private final class Extra: Sendable {
        let rest: [ClaimRequest.Part]
        let requiredLocks: [RequiredLock]
        let within: [ClaimID]
        let answering: QuestionID?

        init(
            _ rest: [ClaimRequest.Part], _ requiredLocks: [RequiredLock], within: [ClaimID],
            answering: QuestionID?
        ) {
            self.rest = rest
            self.requiredLocks = requiredLocks
            self.within = within
            self.answering = answering
        }
    }

    let id: ClaimID
    let nature: ClaimRequest.Nature
    /// X6, Y10.
    var accessPattern: ClaimRequest.AccessPattern
    private(set) var first: ClaimRequest.Part
    /// Nil for a claim whose one stake is the item of its one part.
    private var extra: Extra?

    var isHeld = false
    /// Whether `identify` was given, or nobody need be asked (X2, X3).
    var isIdentityRequested: Bool
    var isIdentified = false
    /// Zero until it is identified.
    var partyNumber: PartyNumber = 0
    /// Whether it let writers pass, and nothing was ever seen to have changed under it (Y3, Y9).
    var isClean = false
    /// Whether it may be held beside claims it meets (I1).
    var mayOverlap: Bool
    /// Whether it was granted before its turn came (T1, T2).
    var hasProceeded = false
    /// Whether its presenters were chosen (P1).
    var hasConsulted = false
    /// Whether nobody who waits stands in its way (D3).
    var overtakes = false
    var suspension: Suspension?
    /// How the file looked when presenters were last told of this writer (N4).
    var reportedStamp: UInt64?

    init(_ request: ClaimRequest) {
        id = request.claim
        nature = request.nature
        accessPattern = request.nature == .handle ? request.accessPattern : []
        first = request.first
        isIdentityRequested = request.nature == .pendingSave
        mayOverlap = request.nature == .nameChange || request.nature == .pendingSave
        guard !request.isSimple || nature == .batch else { return }
        extra = Extra(request.rest, [], within: request.within, answering: request.answering)
    }

    /// Y1, Y7, B3.
    var isBounded: Bool { nature != .nameChange && nature != .pendingSave }
    /// Whether it was asked for over the control socket.
    var isAware: Bool { nature == .aware || nature == .batch }
    /// T1: whether it goes ahead when its time runs out.
    func mayGoAhead(under policy: TimeoutPolicy) -> Bool { !isAware && (policy == .proceed || onlyReads) }
    var onlyReads: Bool { firstOfParts { $0.access.isWrite ? true : nil } == nil }
    /// Whether everybody passes (Y3, Y4, Y6, D3).
    var isFullySuspended: Bool { suspension.map { !$0.isForReaders } ?? false }
    /// D1: what this claim was made within.
    var within: [ClaimID] { extra?.within ?? [] }
    var answering: QuestionID? { extra?.answering }
    var isOnOneItem: Bool { extra == nil }

    /// The one item that it holds, if it can have left no traces elsewhere: who was asked about has met somebody.
    ///
    /// Mutating, as ``LockQueue/hasSingleHolder()`` is, so that it is looked at where it is instead of in a copy.
    mutating func uncontendedItem() -> ItemID? {
        extra == nil && !isIdentityRequested && !isAware ? first.item : nil
    }

    /// G5: whether it has a part that writes an item, not just something in the same package.
    func isWritingPart(_ item: ItemID) -> Bool {
        firstOfParts { $0.item == item && $0.access.isWrite ? true : nil } ?? false
    }

    /// Whether it stakes something that another one stakes as well.
    func overlaps(with other: Claim) -> Bool {
        firstOfRequiredLocks { lock in other.isWriting(lock.resource).map { _ in true } } ?? false
    }

    /// Whether a part takes an item away; a handle that replaces has created a file under a name that nobody had.
    func deletes(_ part: ClaimRequest.Part) -> Bool {
        part.access.isDeletion && !(nature == .handle && part.access == .write(.forReplacing))
    }

    /// Whether it stakes this to write; nil if it does not stake it at all.
    func isWriting(_ resource: Resource) -> Bool? {
        firstOfRequiredLocks { $0.resource == resource ? $0.isWrite : nil }
    }

    /// X6: whether both may have the item at once, whoever they are.
    func isCompatible(beside other: Claim) -> Bool {
        guard !(accessPattern.isEmpty && other.accessPattern.isEmpty), nature == .handle,
            other.nature == .handle,
            first.item == other.first.item
        else { return false }
        if accessPattern.contains(.locks), other.accessPattern.contains(.locks) { return true }
        return accessPattern.contains(.appends) && other.isPrefixEnough
            || other.accessPattern.contains(.appends) && isPrefixEnough
    }

    /// Whether it bears that the item becomes longer.
    private var isPrefixEnough: Bool {
        accessPattern.contains(.appends) || onlyReads
    }

    /// S1 to S3. An empty list means the one stake that each claim with one part has.
    mutating func setRequiredLocks(_ requiredLocks: [RequiredLock]) {
        let rest = extra?.rest ?? []
        let isPlain = requiredLocks.count == 1 && rest.isEmpty && within.isEmpty && answering == nil
        extra = isPlain ? nil : Extra(rest, requiredLocks, within: within, answering: answering)
    }

    /// Puts other parts in the place of its own; its stakes must be set afterwards.
    mutating func setParts(_ body: (ClaimRequest.Part) -> ClaimRequest.Part) {
        first = body(first)
        guard let extra else { return }
        self.extra = Extra(
            extra.rest.map(body), extra.requiredLocks, within: extra.within, answering: extra.answering)
    }

    /// Calls the body with each part; not an array, which would have to be allocated.
    @inline(__always)
    func forEachPart(_ body: (ClaimRequest.Part) -> Void) {
        body(first)
        if let extra { extra.rest.forEach(body) }
    }

    /// The first result that is not nil.
    @inline(__always)
    func firstOfParts<Result>(_ body: (ClaimRequest.Part) -> Result?) -> Result? {
        if let result = body(first) { return result }
        guard let extra else { return nil }
        for part in extra.rest { if let result = body(part) { return result } }
        return nil
    }

    @inline(__always)
    func forEachRequiredLock(_ body: (RequiredLock) -> Void) {
        guard let extra else { return body(ownLock) }
        extra.requiredLocks.forEach(body)
    }

    @inline(__always)
    func firstOfRequiredLocks<Result>(_ body: (RequiredLock) -> Result?) -> Result? {
        guard let extra else { return body(ownLock) }
        for lock in extra.requiredLocks { if let result = body(lock) { return result } }
        return nil
    }

    /// What it stakes, in an array.
    var requiredLocks: [RequiredLock] { extra?.requiredLocks ?? [ownLock] }

    private var ownLock: RequiredLock { RequiredLock(.item(first.item), isWrite: first.access.isWrite) }
}

/// What is known of a claim while it waits.
struct WaitRecord: Sendable {
    let began: Instant
    /// Moves with the progress of presenters that are asked for it (P4).
    var deadline: Instant
    /// A claim that stands in its way; nil while that is being looked for, and while presenters are asked.
    var watched: ClaimID?
}
