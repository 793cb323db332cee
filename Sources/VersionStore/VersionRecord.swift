// SPDX-License-Identifier: Apache-2.0

/// Why a file was kept.
///
/// Not an enum: a log written by a later release may name causes this one does not know, and its
/// entries are as good.
package struct PreservationCause: RawRepresentable, Hashable, Sendable {
    package let rawValue: String
    package init(rawValue: String) { self.rawValue = rawValue }

    /// A step went ahead over a claim that did not yield in time.
    package static let claim = PreservationCause(rawValue: "claim")
    /// A step went ahead over a presenter that did not answer.
    package static let forfeit = PreservationCause(rawValue: "forfeit")
    /// A step went ahead over a presenter that refused.
    package static let refusal = PreservationCause(rawValue: "refusal")
    /// A writer that was suspended may still write.
    package static let suspendedWriter = PreservationCause(rawValue: "suspended-writer")
    /// Found in the store without an entry: the daemon was killed between the two.
    package static let recovered = PreservationCause(rawValue: "recovered")
    /// Written to a file that had been replaced or deleted meanwhile.
    package static let orphan = PreservationCause(rawValue: "orphan")
    /// A step went ahead over a presenter that refused or did not answer.
    package static let presenter = PreservationCause(rawValue: "presenter")
    /// A version is put in the place of what was there.
    package static let restoring = PreservationCause(rawValue: "restoring")
    /// For a later release: two programs have changed the same contents.
    package static let conflict = PreservationCause(rawValue: "conflict")

    /// Whether two programs disagreed about the contents, and neither knows what the other one has: these versions go last.
    var isConflict: Bool { [.orphan, .presenter, .forfeit, .refusal, .conflict].contains(self) }
}

/// Of what contents are kept, and why.
package struct PreservationRequest: Sendable {
    package let path: [UInt8]
    package let cause: PreservationCause
    /// The directories above it that not everybody may enter.
    package let closed: [FileRights]
    /// The user whose step makes it necessary, if that is not the daemon.
    package let user: UInt32?

    package init(path: [UInt8], cause: PreservationCause, closed: [FileRights] = [], user: UInt32? = nil) {
        (self.path, self.cause, self.closed, self.user) = (path, cause, closed, user)
    }

    /// The same by another user.
    func by(_ user: UInt32?) -> PreservationRequest {
        PreservationRequest(path: path, cause: cause, closed: closed, user: user)
    }

    init(_ entry: VersionRecord) {
        self.init(path: entry.path, cause: entry.cause, closed: entry.closed, user: entry.user)
    }
}

/// How the contents came into the store.
package enum PreservationMethod: String, Hashable, Sendable {
    /// The file itself has a second name there.
    case link
    /// A file that shared all blocks when it was made.
    case reflink
    case copy
    /// A second name of a copy that holds the same.
    case shared
    /// Not known any more, for a recovered entry.
    case unknown
}

/// One kept file, as the log describes it.
package struct VersionRecord: Hashable, Sendable {
    package let id: VersionID
    /// Where it was, from the root of the source; empty if that was lost.
    package let path: [UInt8]
    package let cause: PreservationCause
    /// When it was kept, in nanoseconds since 1970.
    package let time: Int64
    package let rights: FileRights
    package let method: PreservationMethod
    package let device: UInt64
    package let inode: UInt64
    package let size: Int
    /// The directories above it that not everybody could enter then.
    package let closed: [FileRights]
    /// The user whose step it was kept for; nil for a step of the daemon's own, or if that is not known.
    package let user: UInt32?

    package init(
        id: VersionID, path: [UInt8], cause: PreservationCause, time: Int64, rights: FileRights,
        method: PreservationMethod,
        device: UInt64, inode: UInt64, size: Int, closed: [FileRights] = [], user: UInt32? = nil
    ) {
        self.id = id
        self.path = path
        self.cause = cause
        self.time = time
        self.rights = rights
        self.method = method
        self.device = device
        self.inode = inode
        self.size = size
        self.closed = closed
        self.user = user
    }
}

/// Where what was kept under an ID is to be found.
package struct VersionLocation: Sendable {
    package let entry: VersionRecord
    /// The file that begins with it: its own, but for one that was let go of since a later one holds all of it.
    package let holder: VersionID
    /// Where it ends in the holder's file; nil if that is all of it.
    package let end: Int?

    /// Up to `count` of its bytes.
    package func count(_ count: Int, from offset: Int) -> Int {
        end.map { max(0, min(count, $0 - offset)) } ?? count
    }
}
