// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// Finds files of the source's file system without their names; only root may do so.
final class FileHandleResolver: Sendable {
    private let root: OwnedDescriptor
    private let handleOfRoot: PersistentFileHandle
    private let (device, mount): (UInt64, UInt64)

    /// Nil if the file system has no handles, or this process may not open them.
    init?(below source: borrowing OwnedDescriptor) {
        do throws(Errno) {
            root = try source.openForListing()
            let status = try source.status()
            (device, mount) = (status.device, status.mount)
            handleOfRoot = try root.persistentHandle()
            _ = try root.path(of: handleOfRoot)
        } catch {
            return nil
        }
    }

    /// Nil for a file that was reached by another mount: the handle would lead to it through the source's mount.
    func fileHandle(of descriptor: SharedDescriptor, known key: FileKey) -> PersistentFileHandle? {
        guard key.device == device, key.mount == mount else { return nil }
        do throws(Errno) { return try descriptor.descriptor.persistentHandle() } catch { return nil }
    }

    func path(of fileHandle: PersistentFileHandle) throws(Errno) -> OwnedDescriptor {
        try root.path(of: fileHandle)
    }

    /// Throws ESTALE where the file system finds no file by its inode number alone.
    func path(ofInode inode: UInt64) throws(Errno) -> OwnedDescriptor {
        guard let fileHandle = handleOfRoot.withInode(to: inode) else { throw .stale }
        return try root.path(of: fileHandle)
    }
}
