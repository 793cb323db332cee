// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Which mounts a process sees.
package enum MountNamespace {
    /// `setns(2)`: the calling process, which must have one thread, sees those of the namespace from now on.
    ///
    /// Its root and its working directory are the namespace's root then.
    package static func enter(_ path: String) throws(Errno) {
        let namespace = OwnedDescriptor(
            adopting: try retryingOnInterrupt { open(path, O_RDONLY | O_CLOEXEC) })
        guard clinux_enter_mount_namespace(namespace.rawValue) == 0 else { throw .last }
    }
}
