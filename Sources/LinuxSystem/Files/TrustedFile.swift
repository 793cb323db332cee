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

    /// The properties of a file that differ after each change of its contents, owner or mode.
    package struct Stamp: Hashable, Sendable {
        private let device, inode, size: UInt64
        private let mode, user: UInt32
        private let modified, changed: FileStatus.Time

        fileprivate init(_ status: FileStatus) {
            (device, inode, size) = (status.device, status.inode, status.size)
            (mode, user) = (status.mode, status.user)
            (modified, changed) = (status.modified, status.changed)
        }

        /// Whether the file was changed less than two seconds ago. File systems round times, so a further change in this time
        /// may give an equal stamp.
        package var isFresh: Bool { changed.seconds >= WallClock.nanoseconds() / 1_000_000_000 - 2 }
    }

    /// What a read has found.
    package enum Finding: Hashable, Sendable {
        case missing
        /// The file has the stamp that the caller knows already.
        case unchanged
        case contents([UInt8], Stamp)
    }

    /// Reads a file, unless its stamp is known already.
    ///
    /// The file must be a regular file, must belong to one of the users in `owners`, and must be writable by no other user. The
    /// checks come before the open, because the open of a device can have an effect, and the open of a FIFO can block.
    ///
    /// - Parameters:
    ///   - path: The path of the file.
    ///   - directory: A descriptor of the directory at which a relative path begins.
    ///   - owners: The users that the file may belong to.
    ///   - limit: The most bytes that the file may have.
    ///   - known: The stamp of the contents that the caller has; nil if the caller has none.
    /// - Returns: The contents, or why there are none.
    /// - Throws: The reason why this process does not use the file.
    package static func read(
        _ path: String, in directory: CInt = AT_FDCWD, ownedBy owners: Set<UInt32>, atMost limit: Int,
        unless known: Stamp? = nil
    ) throws(Refusal) -> Finding {
        guard let file = try find(path, in: directory) else { return .missing }
        let stamp = Stamp(try check(file, owners))
        guard stamp != known else { return .unchanged }
        do throws(Errno) {
            // Reads one byte more than `limit`. If that byte exists, the file is too long.
            let contents = try file.reopen(flags: O_RDONLY | O_NONBLOCK | O_NOCTTY)
            let bytes = try contents.readToEnd(limit: limit + 1)
            if bytes.count <= limit { return .contents(bytes, stamp) }
        } catch {
            throw .system(error)
        }
        throw .tooLong
    }

    private static func find(_ path: String, in directory: CInt) throws(Refusal) -> OwnedDescriptor? {
        do throws(Errno) {
            return OwnedDescriptor(
                adopting: try retryingOnInterrupt {
                    openat(directory, path, CLINUX_O_PATH | O_NOFOLLOW | O_CLOEXEC)
                })
        } catch {
            // The file is treated as missing if this process may not enter a directory that contains it, for example root's
            // HOME after `setpriv`.
            if [.noEntry, .notADirectory, .noAccess].contains(error) { return nil }
            throw .system(error)
        }
    }

    /// Returns the status of a file that this process may use.
    private static func check(
        _ file: borrowing OwnedDescriptor, _ owners: Set<UInt32>
    ) throws(Refusal) -> FileStatus {
        let status: FileStatus
        do throws(Errno) { status = try file.status() } catch { throw .system(error) }
        guard !status.isSymbolicLink else { throw .symbolicLink }
        guard status.isRegularFile else { throw .notRegular }
        guard owners.contains(status.user) else { throw .owner(status.user) }
        // If the file has an ACL, the permission bits of the group show the most that the ACL allows.
        guard status.mode & 0o022 == 0 else { throw .writableByOthers }
        return status
    }
}
