// SPDX-License-Identifier: Apache-2.0

/// The reason why a file was preserved.
///
/// This is not an enum, because a later release can write causes into the log that this release does not have. Log lines with
/// such causes are still valid.
package struct PreservationCause: RawRepresentable, Hashable, Sendable {
    package let rawValue: String
    package init(rawValue: String) { self.rawValue = rawValue }

    /// A program's step destroyed the contents while another program held a claim that did not end in time.
    package static let claim = PreservationCause(rawValue: "claim")
    /// A program's step destroyed the contents although a presenter did not answer its question in time.
    package static let forfeit = PreservationCause(rawValue: "forfeit")
    /// A program's step destroyed the contents although a presenter refused.
    package static let refusal = PreservationCause(rawValue: "refusal")
    /// The contents are in a file that a suspended writer has open, and the writer can still overwrite them.
    package static let suspendedWriter = PreservationCause(rawValue: "suspended-writer")
    /// The file was found in the store without a log line: the daemon was killed after it preserved the file and before it
    /// wrote the line.
    package static let recovered = PreservationCause(rawValue: "recovered")
    /// A program wrote to a file that another program had replaced or deleted.
    package static let orphan = PreservationCause(rawValue: "orphan")
    /// A program's step destroyed the contents although a presenter refused or did not answer.
    package static let presenter = PreservationCause(rawValue: "presenter")
    /// A program has added the contents as a version.
    package static let added = PreservationCause(rawValue: "added")
    /// A user restores a version, which replaces the contents that the document had until then.
    package static let restoring = PreservationCause(rawValue: "restoring")
    /// Two programs have changed the same contents. No code of this release uses this cause.
    package static let conflict = PreservationCause(rawValue: "conflict")
    /// A program saved over contents that it had not read, although it had read earlier contents (an unseen overwrite).
    package static let unseen = PreservationCause(rawValue: "unseen")
    /// A program saved over contents that it had not read. The document then got the changes of both programs (a merge), and
    /// this is what the program had saved.
    package static let merge = PreservationCause(rawValue: "merge")
    /// A program wrote a document whose history is kept: by the setting `keep=writes`, or because the program is part of a run.
    package static let write = PreservationCause(rawValue: "write")
    /// A tool that synchronises files left a conflict copy of the document.
    package static let sync = PreservationCause(rawValue: "sync")

    /// Whether such a version is part of a document's history: nothing was about to be lost when it was made.
    package var isHistory: Bool { self == .write }

    /// The standing of a version with this cause, if nothing else is said. Two programs disagreed about the contents if the
    /// standing is a conflict. One program then possibly never saw the contents of the other.
    var standing: Standing {
        [.orphan, .presenter, .forfeit, .refusal, .conflict, .sync].contains(self) ? .conflict : .plain
    }
}

/// The path of a document that is to be preserved, the reason, and the user that causes the preservation.
package struct PreservationRequest: Sendable {
    package let path: [UInt8]
    package let cause: PreservationCause
    /// The rights of the directories above the document that some users may not enter.
    package let closed: [FileRights]
    /// The user that causes the preservation; nil if the daemon itself causes it.
    package let user: UInt32?
    package let standing: Standing
    package let provenance: Provenance?
    package let durability: Durability

    /// Makes a request.
    ///
    /// - Parameters:
    ///   - path: the path of the document, from the root of the source.
    ///   - cause: why the contents are preserved.
    ///   - closed: the rights of the directories above the document that some users may not enter.
    ///   - user: the user that causes the preservation; nil if the daemon itself causes it.
    ///   - standing: the first standing of the version; nil for the standing that follows from the cause.
    ///   - provenance: the programs that have part in the version, as far as they are known.
    ///   - durability: when the version is on the disk.
    package init(
        path: [UInt8], cause: PreservationCause, closed: [FileRights] = [], user: UInt32? = nil,
        standing: Standing? = nil, provenance: Provenance? = nil, durability: Durability = .immediate
    ) {
        (self.path, self.cause, self.closed, self.user) = (path, cause, closed, user)
        (self.standing, self.provenance, self.durability) = (
            standing ?? cause.standing, provenance, durability
        )
    }

    /// Returns the same request, but caused by the user `user`.
    func by(_ user: UInt32?) -> PreservationRequest {
        PreservationRequest(
            path: path, cause: cause, closed: closed, user: user, standing: standing, provenance: provenance,
            durability: durability)
    }

    init(_ entry: VersionRecord) {
        self.init(
            path: entry.path, cause: entry.cause, closed: entry.closed, user: entry.user,
            standing: entry.standing, provenance: entry.provenance)
    }
}

/// How the contents of a version came into the store.
package enum PreservationMethod: String, Hashable, Sendable {
    /// The document's own file got a second name in the store.
    case link
    /// A new file that shared all its blocks with the document when the version was made.
    case reflink
    case copy
    /// An equal copy was already in the store, and got a second name.
    case shared
    /// The method is not known, because the version was found without a log line.
    case unknown
}

/// The description of one version, as it is in the log.
package struct VersionRecord: Hashable, Sendable {
    package let id: VersionID
    /// The path of the document, from the root of the source; empty if the path was lost. It changes if the document is moved
    /// through the mount (D219).
    package internal(set) var path: [UInt8]
    package let cause: PreservationCause
    /// The time at which the contents were preserved, in nanoseconds since 1970.
    package let time: Int64
    package let rights: FileRights
    package let method: PreservationMethod
    package let device: UInt64
    package let inode: UInt64
    package let size: Int
    /// The rights of the directories above the document that some users could not enter when the version was preserved.
    package let closed: [FileRights]
    /// The user that caused the version; nil if the daemon itself caused it, or if the user is not known.
    package let user: UInt32?
    package internal(set) var standing: Standing
    /// The programs that have part in the version; nil if they are not known.
    package let provenance: Provenance?

    package init(
        id: VersionID, path: [UInt8], cause: PreservationCause, time: Int64, rights: FileRights,
        method: PreservationMethod,
        device: UInt64, inode: UInt64, size: Int, closed: [FileRights] = [], user: UInt32? = nil,
        standing: Standing? = nil, provenance: Provenance? = nil
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
        self.standing = standing ?? cause.standing
        self.provenance = provenance
    }
}

/// The file in the store that holds the contents of a version.
package struct VersionLocation: Sendable {
    package let entry: VersionRecord
    /// The ID that is the name of the file: the version's own ID, or the ID of a later version that begins with all of its
    /// contents.
    package let holder: VersionID
    /// The offset in the file at which the contents of the version end; nil if they end at the end of the file.
    package let end: Int?

    /// Returns how many bytes to read from `offset`: `count`, or fewer if the contents of the version end before that.
    package func count(_ count: Int, from offset: Int) -> Int {
        end.map { max(0, min(count, $0 - offset)) } ?? count
    }
}
