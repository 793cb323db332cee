// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The state of a claim, from its request to its end.
///
/// Nearly all claims have no `extra`, so that a copy of a claim needs no reference counting.
struct Claim: Sendable {
    /// The properties that only few claims have.
    private final class Extra: Sendable {
        let rest: [ClaimRequest.Part]
        let requiredLocks: [RequiredLock]
        let within: [ClaimID]
        let answering: QuestionID?
        let bounds: ClaimBounds

        init(
            _ rest: [ClaimRequest.Part], _ requiredLocks: [RequiredLock], within: [ClaimID],
            answering: QuestionID?, bounds: ClaimBounds
        ) {
            self.rest = rest
            self.requiredLocks = requiredLocks
            self.within = within
            self.answering = answering
            self.bounds = bounds
        }
    }

    let id: ClaimID
    let nature: ClaimRequest.Nature
    /// X6, Y10: Whether the claim's handle only appends, and whether the handle's program locks the file.
    var accessPattern: ClaimRequest.AccessPattern
    private(set) var first: ClaimRequest.Part
    /// The rare properties; nil for a claim with one part that requires only a lock on its item.
    private var extra: Extra?

    var isHeld = false
    /// X2, X3: Whether the effect `identify` was sent for the claim, or is not needed.
    var isIdentityRequested: Bool
    var isIdentified = false
    /// The number of the claim's party; zero until the claim is identified.
    var partyNumber: PartyNumber = 0
    /// Y3, Y9: Whether the claim is suspended for all other claims, and no observation found a change by it.
    var isClean = false
    /// I1: Whether the claim is allowed to be held together with claims that are incompatible with it.
    var mayOverlap: Bool
    /// T1, T2: Whether the claim was granted although other claims blocked it.
    var hasProceeded = false
    /// P1: Whether the presenters of the claim were selected.
    var hasConsulted = false
    /// D3: Whether the claim no longer waits for any waiting claim, because it was chosen to end a deadlock.
    var overtakes = false
    /// D1: Whether the program has closed the claim's handle.
    var isClosed = false
    var suspension: Suspension?
    /// N4: The stamp of the file when presenters were last told of a change by this writer.
    var reportedStamp: UInt64?

    init(_ request: ClaimRequest) {
        id = request.claim
        nature = request.nature
        accessPattern = request.nature == .handle ? request.accessPattern : []
        first = request.first
        isIdentityRequested = request.nature == .pendingSave
        mayOverlap = request.nature == .nameChange || request.nature == .pendingSave
        guard !request.isSimple || nature == .batch else { return }
        extra = Extra(
            request.rest, [], within: request.within, answering: request.answering, bounds: request.bounds)
    }

    /// Y1, Y7, B3: Whether the claim is suspended at a time limit. The claims of name changes and pending saves have no
    /// such limit.
    var isBounded: Bool { nature != .nameChange && nature != .pendingSave }
    /// Whether the claim was made over the control socket.
    var isAware: Bool { nature == .aware || nature == .batch }
    /// T1: Whether the claim is granted, and not refused, when its time limit is reached.
    func mayGoAhead(under policy: TimeoutPolicy) -> Bool { !isAware && (policy == .proceed || onlyReads) }
    var onlyReads: Bool { firstOfParts { $0.access.isWrite ? true : nil } == nil }
    /// Y3, Y4, Y6, D3: Whether no other claim waits for this held claim any more.
    var isFullySuspended: Bool { suspension.map { !$0.isForReaders } ?? false }
    /// D1: The claims within which this claim was made. They cannot end before this claim ends.
    var within: [ClaimID] { extra?.within ?? [] }
    var answering: QuestionID? { extra?.answering }
    /// T1, Y6: The time limits that the claim has instead of those of all claims.
    var ownBounds: ClaimBounds { extra?.bounds ?? ClaimBounds() }
    var isOnOneItem: Bool { extra == nil }

    /// Returns the item of a claim with only one item, if no table has the claim except the claim table and one lock
    /// queue. Else nil.
    ///
    /// A claim is in other tables only if it is aware or has several parts, or if the arbiter has asked for its party.
    ///
    /// The method is mutating, like ``LockQueue/hasSingleHolder()``, so that a call does not copy the value.
    mutating func uncontendedItem() -> ItemID? {
        extra == nil && !isIdentityRequested && !isAware ? first.item : nil
    }

    /// G5: Whether a part of the claim writes the item itself. A write to another item of the same package does not
    /// count.
    func isWritingPart(_ item: ItemID) -> Bool {
        firstOfParts { $0.item == item && $0.access.isWrite ? true : nil } ?? false
    }

    /// Whether both claims require a lock on the same resource.
    func overlaps(with other: Claim) -> Bool {
        firstOfRequiredLocks { lock in other.isWriting(lock.resource).map { _ in true } } ?? false
    }

    /// Whether a part of the claim removes an item.
    ///
    /// A handle with a claim for a replacement has created a file under a free name, so it has removed no item.
    func deletes(_ part: ClaimRequest.Part) -> Bool {
        part.access.isDeletion && !(nature == .handle && part.access == .write(.forReplacing))
    }

    /// Whether the claim requires a resource to write. Nil if it does not require the resource.
    func isWriting(_ resource: Resource) -> Bool? {
        firstOfRequiredLocks { $0.resource == resource ? $0.isWrite : nil }
    }

    /// X6: Whether two handles are allowed to hold the item at the same time, even if they are of different programs.
    func isCompatible(beside other: Claim) -> Bool {
        guard !(accessPattern.isEmpty && other.accessPattern.isEmpty), nature == .handle,
            other.nature == .handle,
            first.item == other.first.item
        else { return false }
        if accessPattern.contains(.locks), other.accessPattern.contains(.locks) { return true }
        return accessPattern.contains(.appends) && other.isPrefixEnough
            || other.accessPattern.contains(.appends) && isPrefixEnough
    }

    /// Whether the claim only reads or appends, so that it need not wait for a handle that appends to the item.
    private var isPrefixEnough: Bool {
        accessPattern.contains(.appends) || onlyReads
    }

    /// S1 to S3: Sets the required locks. A claim with one part and one lock needs no list.
    mutating func setRequiredLocks(_ requiredLocks: [RequiredLock]) {
        let rest = extra?.rest ?? []
        let isPlain =
            requiredLocks.count == 1 && rest.isEmpty && within.isEmpty && answering == nil
            && ownBounds == ClaimBounds()
        extra =
            isPlain
            ? nil : Extra(rest, requiredLocks, within: within, answering: answering, bounds: ownBounds)
    }

    /// Replaces the parts of the claim. The caller must set the required locks afterwards.
    mutating func setParts(_ body: (ClaimRequest.Part) -> ClaimRequest.Part) {
        first = body(first)
        guard let extra else { return }
        self.extra = Extra(
            extra.rest.map(body), extra.requiredLocks, within: extra.within, answering: extra.answering,
            bounds: extra.bounds)
    }

    /// Calls the body with each part of the claim. An array of the parts would need an allocation.
    @inline(__always)
    func forEachPart(_ body: (ClaimRequest.Part) -> Void) {
        body(first)
        if let extra { extra.rest.forEach(body) }
    }

    /// Calls the body with one part after another, and returns the first result that is not nil.
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
