// SPDX-License-Identifier: Apache-2.0
import CFuse

/// Which libfuse runs, and what is spoken with the kernel.
package enum LibraryVersion {
    /// Of the library that was loaded, which may be newer than the one compiled against.
    package static var libfuse: String { fuse_pkgversion().map { String(cString: $0) } ?? "unknown" }

    /// Who speaks of passthrough with the kernel, which depends on the libfuse that was compiled against.
    package static var passthrough: String {
        let version = "\(cfuse_header_version / 100).\(cfuse_header_version % 100)"
        return cfuse_passes_through
            ? "built with \(version), which asks for passthrough"
            : "built with \(version), whose handshake is amended for passthrough"
    }

    /// The wire structures this room declares; the kernel may speak an older one and says so at INIT.
    package static let kernelInterface = "7.40"
}
