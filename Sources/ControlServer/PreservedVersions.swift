// SPDX-License-Identifier: Apache-2.0
package import ControlProtocol
package import LinuxSystem

/// What the socket needs of the store of kept contents.
///
/// Every call names the peer: the store answers only what that peer may read under the rights stored with
/// the content and those the document has now.
package protocol PreservedVersions: Sendable {
    /// What was kept of documents at or below a path, relative to the mount's root, the newest first.
    func entries(under path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> [VersionForm]

    /// Up to `count` bytes; fewer than that mean the end. With a path, of what was kept of that or below it.
    func read(
        _ id: String, of path: [UInt8]?, at offset: Int64, count: Int, for peer: Peer
    ) throws(VersionAccessFailure) -> [UInt8]

    /// Keeps what a file holds now for a client that has an access to write to it. Nil if it holds nothing.
    func preserve(_ path: [UInt8], for peer: Peer) throws(VersionAccessFailure) -> String?
}

package enum VersionAccessFailure: Error, Hashable, Sendable {
    case notFound
    case denied
    case system(Errno)
    /// It was kept of another path than that which was named.
    case otherPath([UInt8], than: [UInt8])
    /// Nothing that has contents, or nothing that lies there.
    case notAFile
    /// Why contents cannot be kept.
    case notPreserved(String)

    var failure: ProtocolFailure {
        switch self {
        case .notFound: .notFound("nothing was kept under this id")
        case .denied: .denied("you may not read this content")
        case .system(let errno): .internalError("the store could not be read: \(errno)")
        case .otherPath(let path, let wanted):
            .notFound(
                "this content was kept of \(Self.name(path)), not of \(Self.name(wanted)) or of anything below it"
            )
        case .notAFile: .notFound("there is no file at this path")
        case .notPreserved(let why): .internalError("what the file holds could not be kept: \(why)")
        }
    }

    /// The path of what was found without its line in the log is lost.
    private static func name(_ path: [UInt8]) -> String {
        path.isEmpty ? "a path that is not known" : "'\(PathForm(path).path.excerpt)'"
    }
}
