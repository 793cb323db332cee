// SPDX-License-Identifier: Apache-2.0

/// One access that is claimed.
public struct ClaimRequest: Hashable, Sendable {
    /// What stands behind a claim, and with it how long the claim lasts and for whom it waits.
    public enum Nature: String, Hashable, Sendable, CaseIterable {
        /// An open handle of an unmodified program: ends with the handle, and yields when contested.
        case handle
        /// A request that changes contents without a handle (`truncate(2)`): waits like an open and
        /// ends with the request.
        case request
        /// A request that changes names (`unlink(2)`, `rename(2)`): passes claims that are held through
        /// handles and those queued beside them, and ends with the request.
        case nameChange
        /// A name that its party vacated in the middle of a save: granted like a name change, and ends
        /// when the name is filled again or its window closes.
        case pendingSave = "episode"
        /// An access that was asked for over the control socket: ends when its holder says so or dies, and is
        /// waited for by everybody, changes of names included.
        case aware
        /// A batch is prepared over the control socket: presenters are asked, nothing is held, and the accesses of
        /// the same purpose that follow need not ask again until it ends.
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

    /// What lets two handles of one item be held beside each other, though one of them writes.
    public struct AccessPattern: OptionSet, Hashable, Sendable {
        public let rawValue: UInt8
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// It only makes the item longer: what others have read or appended stays as it is.
        public static let appends = Self(rawValue: 1)
        /// Its program locks the file itself, or may be expected to.
        public static let locks = Self(rawValue: 2)
    }

    /// What few requests have.
    private struct Extra: Hashable, Sendable {
        var rest: [Part] = []
        var within: [ClaimID] = []
        var answering: QuestionID?
    }

    public let claim: ClaimID
    public let nature: Nature
    /// Of a handle.
    public let accessPattern: AccessPattern
    public let first: Part
    // One or none; in an array, because nearly all requests have none and are copied often.
    private var extra: [Extra] = []

    /// Granted together with the first or not at all.
    public var rest: [Part] { extra.first?.rest ?? [] }

    /// Accesses that cannot end before this one has, because it is made inside them.
    public var within: [ClaimID] {
        get { extra.first?.within ?? [] }
        set { change { $0.within = newValue } }
    }

    /// The request to a presenter that cannot be answered before this access has ended.
    public var answering: QuestionID? {
        get { extra.first?.answering }
        set { change { $0.answering = newValue } }
    }

    /// Whether it has one part and no ties.
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

/// What was seen when a contested holder was looked at.
public enum Observation: Hashable, Sendable {
    /// A writer under which nothing has changed since its grant, and that has nothing to lose: it only appends, or the file that its
    /// program locks is empty.
    case clean
    /// A writer under which nothing has changed since its grant. A position above zero shows that it has read; one that cannot
    /// be seen is always the same, and is not.
    case unchanged(position: Int64)
    /// A writer that created or truncated the file and has written nothing since.
    case emptied
    /// A writer that has changed the file; equal stamps mean no change in between.
    case dirty(stamp: UInt64)
    /// A reader that has read everything, and has had the time to find out that it has.
    case atEnd
    /// A reader that has come to the end of the data, and may not have found out yet that there is no more.
    case atEndUnconfirmed(position: Int64)
    /// A reader in the middle of the file. A position that cannot be seen is always the same.
    case reading(position: Int64)
}

/// Why a claim was granted, and over whom.
public struct Grant: Hashable, Sendable {
    /// A held write claim of somebody else that a write went over.
    public struct Preemption: Hashable, Sendable {
        public let claim: ClaimID
        /// Nothing was ever seen to have changed under it.
        public let isClean: Bool
        public init(claim: ClaimID, isClean: Bool) {
            self.claim = claim
            self.isClean = isClean
        }
    }

    public enum Basis: String, Hashable, Sendable {
        /// Nobody was in the way.
        case free
        /// It waited, and everybody in the way ended or yielded.
        case waited
        /// Its wait ran out under policy `proceed`, or it was forced.
        case proceeded
    }

    public let basis: Basis
    /// Empty for reads. Whoever carries the grant out keeps the contents first if this is not empty.
    public let preempted: [Preemption]
    /// Whether there are more than are listed: nothing is known of those.
    public let preemptsMore: Bool
    /// Presenters that refused or were silent, and that a write goes ahead over. Empty for reads.
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
    /// The wait ran out under policy `fail`.
    case busy
    case withdrawn
    /// A presenter answered an aware access with an error.
    case presenterFailed
    /// It waited for somebody who waits for it; the cycle is told beforehand (``Effect/deadlock(_:)``).
    case deadlock
}

/// How a contested claim let others pass.
public enum Suspension: String, Hashable, Sendable {
    /// It had nothing to lose: a clean writer, a reader at the end of the file or of a background
    /// program. Nobody is forced.
    case yielded
    /// A reader that stood still.
    case readerStalled = "stoodStill"
    /// A writer that has changed nothing yet: readers pass, writers wait on.
    case unchanged
    /// A dirty writer that did not change the file for `idle`: readers pass, writers wait on.
    case idle
    /// `hold` ran out: everybody passes.
    case held
    /// Its program waits for somebody who waits for it: everybody passes.
    case deadlocked

    /// Whether only readers pass.
    public var isForReaders: Bool { self == .idle || self == .unchanged }
}
