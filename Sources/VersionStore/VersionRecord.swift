// SPDX-License-Identifier: Apache-2.0

/// Why a file was preserved.
///
/// Not an enum: a log of a later release may have causes that this release does not know, and its entries are as good.
package struct PreservationCause: RawRepresentable, Hashable, Sendable {
    package let rawValue: String
    package init(rawValue: String) { self.rawValue = rawValue }

    /// A step preempted a claim that did not end in time.
    package static let claim = PreservationCause(rawValue: "claim")
    /// A step went ahead although a presenter did not answer.
    package static let forfeit = PreservationCause(rawValue: "forfeit")
    /// A step went ahead although a presenter refused.
    package static let refusal = PreservationCause(rawValue: "refusal")
    /// A suspended writer may still write.
    package static let suspendedWriter = PreservationCause(rawValue: "suspended-writer")
    /// Found in the store without a line: the daemon was killed between the two.
    package static let recovered = PreservationCause(rawValue: "recovered")
    /// Written to a file that had been replaced or deleted meanwhile.
    package static let orphan = PreservationCause(rawValue: "orphan")
    /// A step went ahead although a presenter refused or did not answer.
    package static let presenter = PreservationCause(rawValue: "presenter")
    /// A version replaces the present contents.
    package static let restoring = PreservationCause(rawValue: "restoring")
    /// For a later release: two programs have changed the same contents.
    package static let conflict = PreservationCause(rawValue: "conflict")

    /// Whether two programs disagreed about the contents, and neither knows those of the other: these versions are evicted
    /// last.
    var isConflict: Bool { [.orphan, .presenter, .forfeit, .refusal, .conflict].contains(self) }
}

/// The document with the contents to preserve, and the reason.
package struct PreservationRequest: Sendable {
    package let path: [UInt8]
    package let cause: PreservationCause
    /// The directories above it that some users may not enter.
    package let closed: [FileRights]
    /// The user that causes the version, if that is not the daemon.
    package let user: UInt32?

    package init(path: [UInt8], cause: PreservationCause, closed: [FileRights] = [], user: UInt32? = nil) {
        (self.path, self.cause, self.closed, self.user) = (path, cause, closed, user)
    }

    /// The same request of another user.
    func by(_ user: UInt32?) -> PreservationRequest {
        PreservationRequest(path: path, cause: cause, closed: closed, user: user)
    }

    init(_ entry: VersionRecord) {
        self.init(path: entry.path, cause: entry.cause, closed: entry.closed, user: entry.user)
    }
}

/// How the contents came into the store.
package enum PreservationMethod: String, Hashable, Sendable {
    /// The file itself has a second name in the store.
    case link
    /// A file that shared all blocks when it was made.
    case reflink
    case copy
    /// A second name of an equal copy.
    case shared
    /// Not known any more, for a recovered version.
    case unknown
}

/// One version, as the log describes it.
package struct VersionRecord: Hashable, Sendable {
    package let id: VersionID
    /// The path of the document, from the root of the source; empty if that was lost.
    package let path: [UInt8]
    package let cause: PreservationCause
    /// When it was preserved, in nanoseconds since 1970.
    package let time: Int64
    package let rights: FileRights
    package let method: PreservationMethod
    package let device: UInt64
    package let inode: UInt64
    package let size: Int
    /// The directories above it that some users could not enter then.
    package let closed: [FileRights]
    /// The user that caused it; nil if that was the daemon, or is not known.
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

/// The file that holds the contents of a version.
package struct VersionLocation: Sendable {
    package let entry: VersionRecord
    /// The version with the file: the same one, or a later one that begins with all of its contents.
    package let holder: VersionID
    /// The offset in the file at which the contents end; nil for the end of the file.
    package let end: Int?

    /// Returns at most `count`, without the bytes after the end of the contents.
    package func count(_ count: Int, from offset: Int) -> Int {
        end.map { max(0, min(count, $0 - offset)) } ?? count
    }
}
