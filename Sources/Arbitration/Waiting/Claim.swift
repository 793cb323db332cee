// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The state of a live claim.
///
/// Nearly all claims have plain bits only, so a copy changes no reference counts.
struct Claim: Sendable {
    /// The properties that only few claims have.
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
    /// Nil for a claim that requires only the item of its only part.
    private var extra: Extra?

    var isHeld = false
    /// Whether `identify` was sent, or is not needed (X2, X3).
    var isIdentityRequested: Bool
    var isIdentified = false
    /// Zero until it is identified.
    var partyNumber: PartyNumber = 0
    /// Whether it was suspended for writers too, and no change under it was ever observed (Y3, Y9).
    var isClean = false
    /// Whether it may be held together with claims that it meets (I1).
    var mayOverlap: Bool
    /// Whether it was granted before its turn in the queue (T1, T2).
    var hasProceeded = false
    /// Whether its presenters were selected (P1).
    var hasConsulted = false
    /// Whether no waiting claim blocks it (D3).
    var overtakes = false
    var suspension: Suspension?
    /// The stamp of the file when presenters were last told of this writer (N4).
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
    /// Whether it was made over the control socket.
    var isAware: Bool { nature == .aware || nature == .batch }
    /// T1: whether it is granted when its time runs out.
    func mayGoAhead(under policy: TimeoutPolicy) -> Bool { !isAware && (policy == .proceed || onlyReads) }
    var onlyReads: Bool { firstOfParts { $0.access.isWrite ? true : nil } == nil }
    /// Whether all other claims pass it (Y3, Y4, Y6, D3).
    var isFullySuspended: Bool { suspension.map { !$0.isForReaders } ?? false }
    /// D1: The claims within which this claim was made.
    var within: [ClaimID] { extra?.within ?? [] }
    var answering: QuestionID? { extra?.answering }
    var isOnOneItem: Bool { extra == nil }

    /// Returns the only item that it holds, if no other record of it can exist.
    ///
    /// A claim that was to be identified has met another claim.
    ///
    /// Mutating, like ``LockQueue/hasSingleHolder()``, so that the value is read in place and not copied.
    mutating func uncontendedItem() -> ItemID? {
        extra == nil && !isIdentityRequested && !isAware ? first.item : nil
    }

    /// G5: whether a part writes the item itself, and not only another item of the same package.
    func isWritingPart(_ item: ItemID) -> Bool {
        firstOfParts { $0.item == item && $0.access.isWrite ? true : nil } ?? false
    }

    /// Whether both claims require a lock on the same resource.
    func overlaps(with other: Claim) -> Bool {
        firstOfRequiredLocks { lock in other.isWriting(lock.resource).map { _ in true } } ?? false
    }

    /// Whether a part removes an item.
    ///
    /// A handle that replaces has created a file under a free name, so it removes none.
    func deletes(_ part: ClaimRequest.Part) -> Bool {
        part.access.isDeletion && !(nature == .handle && part.access == .write(.forReplacing))
    }

    /// Whether it requires a resource to write; nil if it does not require it at all.
    func isWriting(_ resource: Resource) -> Bool? {
        firstOfRequiredLocks { $0.resource == resource ? $0.isWrite : nil }
    }

    /// X6: whether both handles may hold the item at once, in whichever programs.
    func isCompatible(beside other: Claim) -> Bool {
        guard !(accessPattern.isEmpty && other.accessPattern.isEmpty), nature == .handle,
            other.nature == .handle,
            first.item == other.first.item
        else { return false }
        if accessPattern.contains(.locks), other.accessPattern.contains(.locks) { return true }
        return accessPattern.contains(.appends) && other.isPrefixEnough
            || other.accessPattern.contains(.appends) && isPrefixEnough
    }

    /// Whether it tolerates that the item grows.
    private var isPrefixEnough: Bool {
        accessPattern.contains(.appends) || onlyReads
    }

    /// Sets the required locks (S1 to S3). An empty list means the only lock of a claim with one part.
    mutating func setRequiredLocks(_ requiredLocks: [RequiredLock]) {
        let rest = extra?.rest ?? []
        let isPlain = requiredLocks.count == 1 && rest.isEmpty && within.isEmpty && answering == nil
        extra = isPlain ? nil : Extra(rest, requiredLocks, within: within, answering: answering)
    }

    /// Replaces the parts; the required locks must be set afterwards.
    mutating func setParts(_ body: (ClaimRequest.Part) -> ClaimRequest.Part) {
        first = body(first)
        guard let extra else { return }
        self.extra = Extra(
            extra.rest.map(body), extra.requiredLocks, within: extra.within, answering: extra.answering)
    }

    /// Calls the body with each part; an array of them would have to be allocated.
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

    /// The required locks as an array.
    var requiredLocks: [RequiredLock] { extra?.requiredLocks ?? [ownLock] }

    private var ownLock: RequiredLock { RequiredLock(.item(first.item), isWrite: first.access.isWrite) }
}
