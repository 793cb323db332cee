// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Directories that are reached from the root, as only a process may that has not mounted anything yet.
extension OwnedDescriptor {
    /// `mkdir(2)`; false if something of the name is there already.
    package static func makeDirectory(at path: String, mode: UInt32) throws(Errno) -> Bool {
        if mkdir(path, mode) == 0 { return true }
        guard errno == EEXIST else { throw .last }
        return false
    }

    /// `open(2)` of a directory itself, never of one that a link points to.
    package static func openDirectory(at path: String) throws(Errno) -> OwnedDescriptor {
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        return OwnedDescriptor(adopting: try retryingOnInterrupt { open(path, flags) })
    }
}
