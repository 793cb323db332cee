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
    /// The file must be a regular file, must belong to one of the users in `owners`, and must be writable by no other user. The
    /// checks come before the open, because the open of a device can have an effect, and the open of a FIFO can block.
    package static func read(
        _ path: String, ownedBy owners: Set<UInt32>, atMost limit: Int
    ) throws(Refusal) -> [UInt8]? {
        guard let file = try find(path) else { return nil }
        try check(file, owners)
        do throws(Errno) {
            // Reads one byte more than `limit`. If that byte exists, the file is too long.
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
            // The file is treated as missing if this process may not enter a directory that contains it, for example root's
            // HOME after `setpriv`.
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
        // If the file has an ACL, the permission bits of the group show the most that the ACL allows.
        guard status.mode & 0o022 == 0 else { throw .writableByOthers }
    }
}
