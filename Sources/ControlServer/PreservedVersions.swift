// SPDX-License-Identifier: Apache-2.0
package import ControlProtocol
package import LinuxSystem

/// The store of preserved versions, as the control socket uses it.
///
/// The parameter `peer` is the client's process. The store returns only versions that the peer may read by two sets of rights:
/// those stored with the version, and those that the document has now.
package protocol PreservedVersions: Sendable {
    /// Returns the versions of documents at or below a path, the newest first. The path is relative to the root of the mount.
    func entries(under path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> [VersionForm]

    /// Reads up to `count` bytes of a version. If fewer bytes are returned, the version ends after them.
    ///
    /// If `path` is given, the version must belong to that document, or to a document below that path.
    func read(
        _ id: String, of path: [UInt8]?, at offset: Int64, count: Int, for peer: Peer
    ) throws(VersionAccessFailure) -> [UInt8]

    /// Preserves the contents of a file, for a client that holds an access that writes the file.
    ///
    /// Returns the ID of the version, or nil for an empty file.
    func preserve(_ path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> String?
}

package enum VersionAccessFailure: Error, Hashable, Sendable {
    case notFound
    case denied
    case system(Errno)
    /// The version belongs to the first path, but the client asked for a version of the second path.
    case otherPath([UInt8], than: [UInt8])
    /// No file exists at the path, or the item there has no contents, such as a directory.
    case notAFile
    /// The contents cannot be preserved. The text gives the reason.
    case notPreserved(String)

    var failure: ProtocolFailure {
        switch self {
        case .notFound: .notFound("there is no version with this ID")
        case .denied: .denied("you may not read this version")
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
