// SPDX-License-Identifier: Apache-2.0
import CFuse

/// The version of libfuse, and of the protocol with the kernel.
package enum LibraryVersion {
    /// The version of the loaded library, which may be newer than the version at compile time.
    package static var libfuse: String { fuse_pkgversion().map { String(cString: $0) } ?? "unknown" }

    /// Tells whether libfuse or this module asks the kernel for passthrough, which depends on the libfuse at compile time.
    package static var passthrough: String {
        let version = "\(cfuse_header_version / 100).\(cfuse_header_version % 100)"
        return cfuse_passes_through
            ? "built with \(version), which asks for passthrough"
            : "built with \(version), whose handshake is amended for passthrough"
    }

    /// The version of the wire structures in this module; the kernel may use an older version and says so at INIT.
    package static let kernelInterface = "7.40"
}
