// SPDX-License-Identifier: Apache-2.0

/// The time limits of one claim. A limit that is nil is that of all claims, in ``Bounds``.
public struct ClaimBounds: Hashable, Sendable {
    /// T1: How long the claim may wait.
    public var wait: TimeSpan?
    /// Y6: How long the claim of a handle may make other claims wait, counted from the start of the contention.
    public var hold: TimeSpan?

    public init(wait: TimeSpan? = nil, hold: TimeSpan? = nil) {
        self.wait = wait
        self.hold = hold
    }
}

/// The request for a claim.
public struct ClaimRequest: Hashable, Sendable {
    /// The origin of a claim. It decides how long the claim lasts, and for which other claims it waits.
    public enum Nature: String, Hashable, Sendable, CaseIterable {
        /// An open handle of an unmodified program. The claim ends when the handle is closed. If another claim waits
        /// for the claim, the claim can be suspended before its end.
        case handle
        /// A request that changes contents without a handle (`truncate(2)`). The claim waits like the claim of an
        /// open, and ends with the request.
        case handleless = "request"
        /// A request that changes names (`unlink(2)`, `rename(2)`). The claim waits neither for claims that are held
        /// through handles, nor for waiting claims. The claim ends with the request.
        case nameChange
        /// A name that a program has removed in the middle of a save. The claim is granted like the claim of a name
        /// change. It ends when a file has the name again, or when the time for the save is over.
        case pendingSave = "episode"
        /// An access over the control socket. The claim ends when its program ends the access or dies. All other claims
        /// wait for it, even the claims of name changes.
        case aware
        /// A batch: accesses that a program announces together over the control socket. Presenters are asked, but no
        /// lock is held. Until the batch ends, presenters are not asked again for accesses of the same purpose.
        case batch
    }

    public struct Part: Hashable, Sendable {
        public let item: ItemID
        public let access: Access
        /// The name by which the program reaches the item.
        public let place: Place
        /// The symbolic link that the program followed to the item. Nil unless the access has the option
        /// `resolvesSymbolicLink`.
        public let via: ItemID?

        public init(_ item: ItemID, _ access: Access, at place: Place = Place(), via link: ItemID? = nil) {
            self.item = item
            self.access = access
            self.place = place
            via = link
        }
    }

    /// How a handle uses its file. A handle with one of these uses can be held at the same time as a writer of the
    /// item.
    public struct AccessPattern: OptionSet, Hashable, Sendable {
        public let rawValue: UInt8
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The handle only appends: it does not change contents that other handles have read or appended.
        public static let appends = Self(rawValue: 1)
        /// The program of the handle was seen to lock the file, or is expected to lock it.
        public static let locks = Self(rawValue: 2)
    }

    /// Properties that only few requests have.
    private struct Extra: Hashable, Sendable {
        var rest: [Part] = []
        var within: [ClaimID] = []
        var answering: QuestionID?
        var bounds = ClaimBounds()
    }

    public let claim: ClaimID
    public let nature: Nature
    /// The access pattern of the handle; empty if the claim belongs to no handle.
    public let accessPattern: AccessPattern
    public let first: Part
    // Empty or one element. Most requests have no extra properties and are copied often; an empty array is cheap to
    // copy.
    private var extra: [Extra] = []

    /// All parts of the request except the first. A claim is granted for all its parts together.
    public var rest: [Part] { extra.first?.rest ?? [] }

    /// The claims of the accesses within which this access is made. Those accesses cannot end before this one ends.
    public var within: [ClaimID] {
        get { extra.first?.within ?? [] }
        set { change { $0.within = newValue } }
    }

    /// The question that a presenter answers by means of this access. The presenter cannot answer before the access has
    /// ended.
    public var answering: QuestionID? {
        get { extra.first?.answering }
        set { change { $0.answering = newValue } }
    }

    /// The time limits that this claim has instead of those of all claims.
    public var bounds: ClaimBounds {
        get { extra.first?.bounds ?? ClaimBounds() }
        set { change { $0.bounds = newValue } }
    }

    /// Whether the request has a single part, is made within no other access, answers no question, and has no time limits of
    /// its own.
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

/// The result of an observation of a holder in contention: how the holder has used its file.
public enum Observation: Hashable, Sendable {
    /// A writer that has changed nothing since its grant and loses nothing if another program writes first. The writer
    /// only appends, or it locks the file and the file is empty.
    case clean
    /// A writer that has changed nothing since its grant.
    ///
    /// A position above zero shows that the writer has read. If the writer's position cannot be observed, `position` is
    /// a constant that is not above zero.
    case unchanged(position: Int64)
    /// A writer that has created or truncated the file, and has written nothing into the file after that.
    case emptied
    /// A writer that has changed the file. Two observations with equal stamps mean that the file did not change
    /// between them.
    case dirty(stamp: UInt64)
    /// A reader that has read all the data, and has had the time for one more read, which finds the end of the file.
    case atEnd
    /// A reader that has read all the data, but perhaps has not yet made the one more read that finds the end of the
    /// file.
    case atEndUnconfirmed(position: Int64)
    /// A reader that has not read all the data. If its position cannot be observed, `position` is a constant.
    case reading(position: Int64)
}

/// The reason for which a claim was granted, and the claims that the claim preempted.
public struct Grant: Hashable, Sendable {
    /// A write claim of another party that is still held and was preempted by a granted write.
    public struct Preemption: Hashable, Sendable {
        public let claim: ClaimID
        /// Whether no observation had found a change by the preempted claim when the claim was suspended.
        public let isClean: Bool
        public init(claim: ClaimID, isClean: Bool) {
            self.claim = claim
            self.isClean = isClean
        }
    }

    public enum Basis: String, Hashable, Sendable {
        /// The claim was granted without a wait: no other claim blocked it.
        case free
        /// The claim was granted after a wait. All claims for which it waited had ended or were suspended, and all
        /// presenters had answered.
        case waited
        /// The claim was granted although other claims or presenters blocked it, because its time limit was reached or
        /// it was forced.
        case proceeded
    }

    public let basis: Basis
    /// The preempted write claims; empty if the granted claim only reads. If the list is not empty, the contents must
    /// be preserved before the write.
    public let preempted: [Preemption]
    /// Whether the claim has preempted more claims than `preempted` lists.
    public let preemptsMore: Bool
    /// The presenters that refused or did not answer, so that the write is granted without their consent. Empty for
    /// reads.
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
    /// The claim waited until its time limit under policy `fail`.
    case busy
    case withdrawn
    /// A presenter answered with an error when it was asked for this aware access.
    case presenterFailed
    /// The claim was part of a deadlock. The effect ``Effect/deadlock(_:)`` with the cycle of claims precedes this
    /// refusal.
    case deadlock
}

/// The reason why other claims no longer wait for a held claim in contention.
public enum Suspension: String, Hashable, Sendable {
    /// The holder had nothing to lose, so no other claim waits for it. The holder is a writer that has changed
    /// nothing, a reader at the end of the file, or a reader of a background program.
    case yielded
    /// The position of a reader did not change for `readerIdle`: no other claim waits for the reader.
    case readerStalled = "stoodStill"
    /// A writer has changed nothing yet: readers no longer wait for the writer, but other writers still wait.
    case unchanged
    /// A writer that had changed the file did not change it again for `idle`. Readers no longer wait for the writer,
    /// but other writers still wait.
    case idle
    /// The contention of the claim has lasted for `hold`: no other claim waits for the claim.
    case holdExpired = "held"
    /// The claim was suspended to end a deadlock: no other claim waits for the claim.
    case deadlocked

    /// Whether readers no longer wait for the claim, but writers still wait.
    public var isForReaders: Bool { self == .idle || self == .unchanged }
}
