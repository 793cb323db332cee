// SPDX-License-Identifier: Apache-2.0
package import ControlProtocol
package import LinuxSystem

/// The store of preserved versions, as the socket uses it.
///
/// Every call names the peer. The store answers only what the peer may read under two sets of rights: those stored with the
/// version, and those of the document now.
package protocol PreservedVersions: Sendable {
    /// The versions of documents at or below a path, relative to the mount's root, the newest first.
    func entries(under path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> [VersionForm]

    /// Reads up to `count` bytes; fewer mean the end.
    ///
    /// With a path, the version must be of that document or of one below it.
    func read(
        _ id: String, of path: [UInt8]?, at offset: Int64, count: Int, for peer: Peer
    ) throws(VersionAccessFailure) -> [UInt8]

    /// Preserves the contents of a file for a client that has an access to write it.
    ///
    /// Returns the version's id, or nil for an empty file.
    func preserve(_ path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> String?
}

package enum VersionAccessFailure: Error, Hashable, Sendable {
    case notFound
    case denied
    case system(Errno)
    /// The version is of another path than the named path.
    case otherPath([UInt8], than: [UInt8])
    /// There is no file at the path, or it has no contents.
    case notAFile
    /// The reason why contents cannot be preserved.
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

    /// The quoted path, which is lost for a version without its line in the log.
    private static func name(_ path: [UInt8]) -> String {
        path.isEmpty ? "a path that is not known" : "'\(PathForm(path).path.excerpt)'"
    }
}
