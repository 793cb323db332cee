// SPDX-License-Identifier: Apache-2.0
import CFuse

/// The version of libfuse, and the version of the protocol between the daemon and the kernel.
package enum LibraryVersion {
    /// The version of the loaded library. It may be newer than the version with which the daemon was built.
    package static var libfuse: String { fuse_pkgversion().map { String(cString: $0) } ?? "unknown" }

    /// A text that says whether libfuse or this module asks the kernel for passthrough. This depends on the version of libfuse
    /// with which the daemon was built.
    package static var passthrough: String {
        let version = "\(cfuse_header_version / 100).\(cfuse_header_version % 100)"
        return cfuse_passes_through
            ? "built with \(version), which asks for passthrough"
            : "built with \(version), whose handshake is amended for passthrough"
    }

    /// The version of the message structures in this module. The kernel may use an older version, which it sends with INIT.
    package static let kernelInterface = "7.40"
}
