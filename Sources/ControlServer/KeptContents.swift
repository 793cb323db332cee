// SPDX-License-Identifier: Apache-2.0
package import ControlProtocol
package import LinuxSystem

/// What the socket needs of the store of kept contents.
///
/// Every call names the peer: the store answers only what that peer may read under the rights stored with
/// the content and those the document has now.
package protocol KeptContents: Sendable {
    /// What was kept of documents at or below a path, relative to the mount's root, the newest first.
    func entries(under path: [UInt8], for peer: Peer) throws(KeptFailure) -> [KeptForm]

    /// Up to `count` bytes; fewer than that mean the end.
    func read(
        _ id: String, at offset: Int64, count: Int, for peer: Peer
    ) throws(KeptFailure) -> [UInt8]
}

package enum KeptFailure: Error, Hashable, Sendable {
    case notFound
    case denied
    case system(Errno)

    var failure: Failure {
        switch self {
        case .notFound: .notFound("nothing was kept under this id")
        case .denied: .denied("you may not read this content")
        case .system(let errno): .internalError("the store could not be read: \(errno)")
        }
    }
}
