// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A file that this process obeys, such as one of its configuration.
package enum TrustedFile {
    /// Why a file is not read.
    package enum Refusal: Error, Hashable, Sendable {
        case symbolicLink
        case notRegular
        case owner(UInt32)
        case writableByOthers
        case tooLong
        case system(Errno)
    }

    /// The contents of a file; nil if there is none.
    ///
    /// It must be a regular file of one of the owners that no other user may write to, and no symbolic link. Nothing is opened
    /// before that is known: to open a device may do something, and to open a FIFO may wait.
    package static func read(
        _ path: String, ownedBy owners: Set<UInt32>, atMost limit: Int
    ) throws(Refusal) -> [UInt8]? {
        guard let file = try find(path) else { return nil }
        try check(file, owners)
        do throws(Errno) {
            // One byte more than there may be.
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
            // A directory on the way that this process may not pass is another user's, as with `setpriv` and the HOME of root.
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
        // A list of rights shows in the bits of the group.
        guard status.mode & 0o022 == 0 else { throw .writableByOthers }
    }
}
