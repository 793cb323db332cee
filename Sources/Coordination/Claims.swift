// SPDX-License-Identifier: Apache-2.0

/// The request for a claim.
public struct ClaimRequest: Hashable, Sendable {
    /// The origin of a claim; it decides how long the claim lasts and for which claims it waits.
    public enum Nature: String, Hashable, Sendable, CaseIterable {
        /// An open handle of an unmodified program. It ends with the handle, and yields in contention.
        case handle
        /// A request that changes contents without a handle (`truncate(2)`). It waits like an open and ends with the
        /// request.
        case handleless = "request"
        /// A request that changes names (`unlink(2)`, `rename(2)`). It does not wait for claims that are held through
        /// handles, nor for those queued beside them. It ends with the request.
        case nameChange
        /// A name that its party vacated in the middle of a save. It is granted like a name change. It ends when the
        /// name is filled again or the time of the save runs out.
        case pendingSave = "episode"
        /// An access over the control socket. It ends when its holder ends it or dies. All other claims wait for it,
        /// name changes included.
        case aware
        /// A batch that is prepared over the control socket. Presenters are asked, but no lock is held. Later
        /// accesses of the same purpose need not ask again until it ends.
        case batch
    }

    public struct Part: Hashable, Sendable {
        public let item: ItemID
        public let access: Access
        /// The name by which the item is reached.
        public let place: Place
        /// The symbolic link that led to the item, if a read resolves one (`resolvesSymbolicLink`).
        public let via: ItemID?

        public init(_ item: ItemID, _ access: Access, at place: Place = Place(), via link: ItemID? = nil) {
            self.item = item
            self.access = access
            self.place = place
            via = link
        }
    }

    /// How a handle uses its file; some handles may be held beside a writer of the same item.
    public struct AccessPattern: OptionSet, Hashable, Sendable {
        public let rawValue: UInt8
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The handle only makes the item longer; contents that others have read or appended do not change.
        public static let appends = Self(rawValue: 1)
        /// The program of the handle locks the file itself, or is expected to.
        public static let locks = Self(rawValue: 2)
    }

    /// Properties that few requests have.
    private struct Extra: Hashable, Sendable {
        var rest: [Part] = []
        var within: [ClaimID] = []
        var answering: QuestionID?
    }

    public let claim: ClaimID
    public let nature: Nature
    /// The pattern of a handle; empty for other claims.
    public let accessPattern: AccessPattern
    public let first: Part
    // Empty or one element: an array, because nearly all requests have none and are copied often.
    private var extra: [Extra] = []

    /// The other parts; all parts are granted together.
    public var rest: [Part] { extra.first?.rest ?? [] }

    /// Accesses that cannot end before this one ends, because it is made inside them.
    public var within: [ClaimID] {
        get { extra.first?.within ?? [] }
        set { change { $0.within = newValue } }
    }

    /// The question that a presenter cannot answer before this access has ended.
    public var answering: QuestionID? {
        get { extra.first?.answering }
        set { change { $0.answering = newValue } }
    }

    /// Whether the request has one part and depends on no other claim or question.
    public var isSimple: Bool { extra.isEmpty }

    public init(
        _ claim: ClaimID, _ nature: Nature, _ first: Part, _ rest: [Part] = [],
        accessPattern: AccessPattern = []
    ) {
        self.claim = claim
        self.nature = nature
        self.accessPattern = accessPattern
        self.first = first
        if !rest.isEmpty { extra = [Extra(rest: rest)] }
    }

    private mutating func change(_ body: (inout Extra) -> Void) {
        var changed = extra.first ?? Extra()
        body(&changed)
        extra = changed == Extra() ? [] : [changed]
    }

    public init(_ claim: ClaimID, _ nature: Nature, _ first: Part, _ second: Part?) {
        self.init(claim, nature, first, second.map { [$0] } ?? [])
    }

    public var parts: [Part] { [first] + rest }
}

/// The result of an observation of a holder in contention.
public enum Observation: Hashable, Sendable {
    /// A writer that has changed nothing since its grant and has nothing to lose. It only appends, or the file that
    /// its program locks is empty.
    case clean
    /// A writer that has changed nothing since its grant.
    ///
    /// A position above zero shows that it has read. A position that cannot be observed is always the same and not
    /// above zero.
    case unchanged(position: Int64)
    /// A writer that created or truncated the file and has written nothing since.
    case emptied
    /// A writer that has changed the file; equal stamps mean no change in between.
    case dirty(stamp: UInt64)
    /// A reader that has read everything, and has had the time to find that out.
    case atEnd
    /// A reader at the end of the data that may not have found out yet that there is no more.
    case atEndUnconfirmed(position: Int64)
    /// A reader in the middle of the file. A position that cannot be observed is always the same.
    case reading(position: Int64)
}

/// Why a claim was granted, and which claims it preempted.
public struct Grant: Hashable, Sendable {
    /// A held write claim of another party that a write has preempted.
    public struct Preemption: Hashable, Sendable {
        public let claim: ClaimID
        /// No observation ever found a change by this claim.
        public let isClean: Bool
        public init(claim: ClaimID, isClean: Bool) {
            self.claim = claim
            self.isClean = isClean
        }
    }

    public enum Basis: String, Hashable, Sendable {
        /// No other claim was in conflict.
        case free
        /// The claim waited until all its blockers ended or yielded.
        case waited
        /// The wait reached its limit under policy `proceed`, or the claim was forced.
        case proceeded
    }

    public let basis: Basis
    /// The preempted write claims; empty for reads. If there are any, the contents must be preserved before the
    /// write.
    public let preempted: [Preemption]
    /// Whether more claims were preempted than are listed.
    public let preemptsMore: Bool
    /// Presenters that refused or did not answer, so that the write goes ahead without them. Empty for reads.
    public let unanswered: [PresenterID]

    public init(
        basis: Basis, preempted: [Preemption] = [], preemptsMore: Bool = false, unanswered: [PresenterID] = []
    ) {
        self.basis = basis
        self.preempted = preempted
        self.preemptsMore = preemptsMore
        self.unanswered = unanswered
    }
}

public enum Refusal: String, Hashable, Sendable {
    /// The wait reached its limit under policy `fail`.
    case busy
    case withdrawn
    /// A presenter answered an aware access with an error.
    case presenterFailed
    /// The claim was part of a deadlock; ``Effect/deadlock(_:)`` with the cycle comes first.
    case deadlock
}

/// Why others no longer wait for a held claim in contention.
public enum Suspension: String, Hashable, Sendable {
    /// The holder had nothing to lose: a clean writer, or a reader at the end of the file or of a background program.
    /// It is not forced.
    case yielded
    /// A reader was idle.
    case readerStalled = "stoodStill"
    /// A writer has changed nothing yet: readers no longer wait for it, writers still do.
    case unchanged
    /// A dirty writer did not change the file for `idle`: readers no longer wait for it, writers still do.
    case idle
    /// The claim reached `hold`: no other claim waits for it.
    case holdExpired = "held"
    /// The claim's program was part of a deadlock: no other claim waits for it.
    case deadlocked

    /// Whether writers still wait for the claim.
    public var isForReaders: Bool { self == .idle || self == .unchanged }
}
