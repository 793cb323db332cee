// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Directories by absolute path, which only a process that has not mounted yet may use.
extension OwnedDescriptor {
    /// `mkdir(2)`; returns false if the name exists already.
    package static func makeDirectory(at path: String, mode: UInt32) throws(Errno) -> Bool {
        if mkdir(path, mode) == 0 { return true }
        guard errno == EEXIST else { throw .last }
        return false
    }

    /// `open(2)` of a directory itself, which does not follow a symbolic link.
    package static func openDirectory(at path: String) throws(Errno) -> OwnedDescriptor {
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        return OwnedDescriptor(adopting: try retryingOnInterrupt { open(path, flags) })
    }
}
