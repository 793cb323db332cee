// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Calls that open or make a directory by an absolute path. A process may use them only while it has no mount.
extension OwnedDescriptor {
    /// Makes a directory by `mkdir(2)`; returns false if the name exists already.
    package static func makeDirectory(at path: String, mode: UInt32) throws(Errno) -> Bool {
        if mkdir(path, mode) == 0 { return true }
        guard errno == EEXIST else { throw .last }
        return false
    }

    /// Opens a directory by `open(2)`; fails if the last part of the path is a symbolic link.
    package static func openDirectory(at path: String) throws(Errno) -> OwnedDescriptor {
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        return OwnedDescriptor(adopting: try retryingOnInterrupt { open(path, flags) })
    }
}
