// SPDX-License-Identifier: Apache-2.0
public import Coordination

/// One access that is claimed.
public struct Request: Hashable, Sendable {
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
        case episode
    }

    public struct Part: Hashable, Sendable {
        public let item: ItemID
        public let access: Access
        public init(_ item: ItemID, _ access: Access) {
            self.item = item
            self.access = access
        }
    }

    public let claim: ClaimID
    public let nature: Nature
    public let first: Part
    /// Granted together with the first or not at all.
    public let second: Part?

    public init(_ claim: ClaimID, _ nature: Nature, _ first: Part, _ second: Part? = nil) {
        self.claim = claim
        self.nature = nature
        self.first = first
        self.second = second
    }
}

/// What was seen when a contested holder was looked at.
public enum Observation: Hashable, Sendable {
    /// A writer under which nothing has changed since its grant.
    case clean
    /// A writer that created or truncated the file and has written nothing since.
    case untouched
    /// A writer that has changed the file; equal stamps mean no change in between.
    case dirty(stamp: UInt64)
    /// A reader that has read everything.
    case atEnd
    /// A reader in the middle of the file. A position that cannot be seen is always the same.
    case reading(position: Int64)
}

/// One fact about the world, as told to the ``Arbiter``.
public enum Event: Hashable, Sendable {
    case claimed(Request)
    /// Who made a claim; follows ``Effect/identify(_:)``, once per claim.
    case identified(ClaimID, Party)
    /// Follows ``Effect/observe(_:)``. The claim may have ended meanwhile.
    case observed(ClaimID, Observation)
    /// The handle was released, or the request was carried out.
    case ended(ClaimID)
    /// The claimant no longer waits: it was interrupted, or died.
    case withdrawn(ClaimID)
    /// The claimant cannot wait any longer and must be let through (a stopped or frozen thread).
    case forced(ClaimID)
    /// A name was vacated in the middle of a save. Held handle claims on `document` go on as claims on
    /// `orphan`, because that is the file they have open; those who wait go on waiting for `document`.
    case vacated(document: ItemID, orphan: ItemID)
    /// The file that was `incoming` is the document from now on: every claim on `incoming` becomes one on
    /// `document`. Claims held through handles of the replaced file, if there was one, go to `orphan`.
    case replaced(document: ItemID, incoming: ItemID, orphan: ItemID?)
    /// Time passed.
    case tick
}

/// Why a claim was granted, and over whom.
public struct Grant: Hashable, Sendable {
    /// A held write claim of somebody else that a write went over.
    public struct Passed: Hashable, Sendable {
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
    /// Empty for reads.
    ///
    /// Whoever carries the grant out keeps the contents first if this is not empty.
    public let passed: [Passed]

    public init(basis: Basis, passed: [Passed] = []) {
        self.basis = basis
        self.passed = passed
    }
}

public enum Refusal: String, Hashable, Sendable {
    /// The wait ran out under policy `fail`.
    case busy
    case withdrawn
}

/// How a contested claim let others pass.
public enum Suspension: String, Hashable, Sendable {
    /// It had nothing to lose: a clean writer, a reader at the end of the file or of a background
    /// program. Nobody is forced.
    case yielded
    /// A reader that stood still in the middle of the file.
    case stoodStill
    /// A dirty writer that did not change the file for `idle`: readers pass, writers wait on.
    case idle
    /// `hold` ran out: everybody passes.
    case held
}

/// One thing the world must now do.
public enum Effect: Hashable, Sendable {
    case grant(ClaimID, Grant)
    case refuse(ClaimID, Refusal)
    /// Say who made this claim. Given at most once per claim, and only when it meets another.
    case identify(ClaimID)
    /// Look at what this holder has done to its file.
    case observe(ClaimID)
    case suspend(ClaimID, Suspension)
    /// Send ``Event/tick`` at this moment, or earlier.
    case wake(at: Instant)
}
