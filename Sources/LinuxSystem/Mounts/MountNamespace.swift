// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A mount namespace: the mounts that a process sees.
package enum MountNamespace {
    /// `setns(2)`: moves the calling process into another mount namespace. The process must have a single thread.
    ///
    /// After the call, the process's root and working directory are the root of that namespace.
    package static func enter(_ path: String) throws(Errno) {
        let namespace = OwnedDescriptor(
            adopting: try retryingOnInterrupt { open(path, O_RDONLY | O_CLOEXEC) })
        guard clinux_enter_mount_namespace(namespace.rawValue) == 0 else { throw .last }
    }
}
