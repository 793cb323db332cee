// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A file that controls this process, such as a configuration file.
package enum TrustedFile {
    /// The reason why this process does not use a file.
    package enum Refusal: Error, Hashable, Sendable {
        case symbolicLink
        case notRegular
        case owner(UInt32)
        case writableByOthers
        case tooLong
        case system(Errno)
    }

    /// Returns the contents of a file; nil if the file does not exist.
    ///
    /// The file must be a regular file, belong to an owner in `owners`, and be writable by no other user. This is checked
    /// before the open: to open a device may have an effect, and to open a FIFO may block.
    package static func read(
        _ path: String, ownedBy owners: Set<UInt32>, atMost limit: Int
    ) throws(Refusal) -> [UInt8]? {
        guard let file = try find(path) else { return nil }
        try check(file, owners)
        do throws(Errno) {
            // Reads up to `limit` and a further byte, to detect a file that is too long.
            let contents = try file.reopen(flags: O_RDONLY | O_NONBLOCK | O_NOCTTY)
            let bytes = try contents.readToEnd(limit: limit + 1)
            if bytes.count <= limit { return bytes }
        } catch {
            throw .system(error)
        }
        throw .tooLong
    }

    private static func find(_ path: String) throws(Refusal) -> OwnedDescriptor? {
        do throws(Errno) {
            return OwnedDescriptor(
                adopting: try retryingOnInterrupt { open(path, CLINUX_O_PATH | O_NOFOLLOW | O_CLOEXEC) })
        } catch {
            // A parent directory that this process may not enter belongs to another user, such as root's HOME after `setpriv`.
            if [.noEntry, .notADirectory, .noAccess].contains(error) { return nil }
            throw .system(error)
        }
    }

    private static func check(_ file: borrowing OwnedDescriptor, _ owners: Set<UInt32>) throws(Refusal) {
        let status: FileStatus
        do throws(Errno) { status = try file.status() } catch { throw .system(error) }
        guard !status.isSymbolicLink else { throw .symbolicLink }
        guard status.isRegularFile else { throw .notRegular }
        guard owners.contains(status.user) else { throw .owner(status.user) }
        // The permission bits of the group include the permissions that an ACL gives.
        guard status.mode & 0o022 == 0 else { throw .writableByOthers }
    }
}
