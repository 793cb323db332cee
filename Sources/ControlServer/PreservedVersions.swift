// SPDX-License-Identifier: Apache-2.0
package import ControlProtocol
package import Coordination
package import CoordinationEngine
package import LinuxSystem

/// The store of preserved versions, as the control socket uses it.
///
/// The parameter `peer` is the client's process. The store returns only versions that the peer may read by two sets of rights:
/// those stored with the version, and those that the document has now.
package protocol PreservedVersions: Sendable {
    /// Returns the versions that a query asks for, the newest first, and whether there are more.
    func entries(_ query: VersionQuery, for peer: Peer) throws(VersionAccessFailure) -> VersionPage

    /// Reads up to `count` bytes of a version. If fewer bytes are returned, the version ends after them.
    ///
    /// If `path` is given, the version must belong to that document, or to a document below that path.
    func read(
        _ id: String, of path: [UInt8]?, at offset: Int64, count: Int, for peer: Peer
    ) throws(VersionAccessFailure) -> [UInt8]

    /// Preserves contents as a version of a file, for a client that holds an access that writes the file.
    ///
    /// The contents are those of the file itself. If `contents` is given, they are those of the file at that path, which the
    /// peer must have the right to read. Returns the ID of the version, or nil for empty contents.
    func preserve(
        _ path: [UInt8], contents: [UInt8]?, for peer: Peer
    ) throws(VersionAccessFailure) -> String?

    /// Sets what is called after each change of a version, on any thread. The call must not wait.
    func observe(_ body: @escaping @Sendable (PreservedChange) -> Void)

    /// Marks conflicts of the documents at or below a path as resolved. Returns their number. If `ids` is nil, all conflicts
    /// are resolved that the peer may change; otherwise the call fails if the peer may not change one of them.
    func resolve(_ ids: [String]?, of path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> Int

    /// Removes versions of the documents at or below a path. Fails, and removes none, if the peer may not change one of them,
    /// or if a program still writes to one of them. Returns the number of removed versions.
    func remove(_ ids: [String], of path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> Int

    /// Removes the versions of the documents at or below a path that are in no conflict, that no program writes to, that are
    /// not newer than `until` (in seconds since 1970), and that the peer may change. Returns their number.
    func prune(_ path: [UInt8], until: Double?, for peer: Peer) throws(VersionAccessFailure) -> Int
}

/// Which versions a client asks for.
package struct VersionQuery: Hashable, Sendable {
    /// The path is relative to the root of the mount; versions at or below it are listed.
    package var path: [UInt8]
    /// Only versions before this ID are listed.
    package var before: String?
    /// The earliest time, in seconds since 1970.
    package var since: Double?
    /// The name of a program or run that has part in the versions.
    package var by: String?
    /// The most versions that are returned.
    package var most: Int

    package init(
        path: [UInt8], before: String? = nil, since: Double? = nil, by: String? = nil,
        most: Int = ProtocolLimits.listEntries
    ) {
        (self.path, self.before, self.since, self.by, self.most) = (path, before, since, by, most)
    }
}

/// The versions of one reply.
package struct VersionPage: Hashable, Sendable {
    package var entries: [VersionForm]
    package var hasMore: Bool

    package init(_ entries: [VersionForm], hasMore: Bool) {
        (self.entries, self.hasMore) = (entries, hasMore)
    }
}

/// A change of a version in the store, as presenters are told of it.
package struct PreservedChange: Hashable, Sendable {
    package let change: VersionChange
    /// The path of the document, from the root of the mount.
    package let path: [UInt8]
    /// For a gained version, the program because of which it was made. Nil if the program is not known.
    package let actor: ProcessDescription?

    package init(_ change: VersionChange, of path: [UInt8], by actor: ProcessDescription?) {
        (self.change, self.path, self.actor) = (change, path, actor)
    }
}

package enum VersionAccessFailure: Error, Hashable, Sendable {
    case notFound
    case denied
    case system(Errno)
    /// The version belongs to the first path, but the client asked for a version of the second path.
    case otherPath([UInt8], than: [UInt8])
    /// No file exists at the path, or the item there has no contents, such as a directory.
    case notAFile
    /// The client may read the version, but has no right to write the document.
    case unchangeable
    /// Programs still write to the file of the version.
    case written(by: [String])
    /// The contents cannot be preserved. The text gives the reason.
    case notPreserved(String)

    var failure: ProtocolFailure {
        switch self {
        case .notFound: .notFound("there is no version with this ID")
        case .denied: .denied("you may not read this version")
        case .unchangeable:
            .denied("you may not change this version, because you have no right to write its document")
        case .written(let programs):
            .denied("the version is still written by \(programs.joined(separator: ", "))")
        case .system(let errno): .internalError("the store could not be read: \(errno)")
        case .otherPath(let path, let wanted):
            .notFound(
                "this is a version of \(Self.name(path)), not of \(Self.name(wanted)) or of a file below it"
            )
        case .notAFile: .notFound("there is no file at this path")
        case .notPreserved(let why): .internalError("the contents of the file could not be preserved: \(why)")
        }
    }

    /// Returns the path in quotation marks. If the version has no line in the store's log, its path is lost, and the result
    /// says so.
    private static func name(_ path: [UInt8]) -> String {
        path.isEmpty ? "a path that is not known" : "'\(PathForm(path).path.excerpt)'"
    }
}
