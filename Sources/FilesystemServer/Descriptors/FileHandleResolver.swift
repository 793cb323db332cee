// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// Opens files of the source's file system by their file handles or inode numbers. The kernel allows this only to root.
final class FileHandleResolver: Sendable {
    private let root: OwnedDescriptor
    private let handleOfRoot: PersistentFileHandle
    private let (device, mount): (UInt64, UInt64)

    /// Returns nil if the source's file system has no file handles, or if the daemon is not allowed to open files by file
    /// handles.
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

    /// Returns the file's handle. Nil for a file on a submount, because the daemon opens file handles by the source's mount.
    func fileHandle(of descriptor: SharedDescriptor, known key: FileKey) -> PersistentFileHandle? {
        guard key.device == device, key.mount == mount else { return nil }
        do throws(Errno) { return try descriptor.descriptor.persistentHandle() } catch { return nil }
    }

    func path(of fileHandle: PersistentFileHandle) throws(Errno) -> OwnedDescriptor {
        try root.path(of: fileHandle)
    }

    /// Opens a file by its inode number. Throws ESTALE if the file system cannot find a file by its inode number alone.
    func path(ofInode inode: UInt64) throws(Errno) -> OwnedDescriptor {
        guard let fileHandle = handleOfRoot.withInode(to: inode) else { throw .stale }
        return try root.path(of: fileHandle)
    }
}
