// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A file's permanent identification on its file system, independent of its names: `name_to_handle_at(2)`.
package struct PersistentFileHandle: Hashable, Sendable {
    /// As in `struct file_handle`: the size of the last part, the type, and the last part.
    fileprivate let bytes: [UInt8]

    private init(bytes: [UInt8]) { self.bytes = bytes }

    /// Copies the kernel's form.
    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.init(bytes: Array(bytes)) }

    /// Returns a similar handle, for the file that has the inode number now; nil if the file system has no such handles.
    ///
    /// ext4, F2FS and Btrfs accept generation 0 for any generation. Other file systems with the first form (XFS) do not find
    /// most files.
    package func withInode(to inode: UInt64) -> PersistentFileHandle? {
        var bytes = bytes
        let start = 2 * MemoryLayout<UInt32>.size
        guard bytes.count > start else { return nil }
        let number = withUnsafeBytes(of: inode) { Array($0) }
        switch (bytes[4..<start].elementsEqual([1, 0, 0, 0]), bytes.count - start) {
        // FILEID_INO32_GEN of include/linux/exportfs.h: inode number and generation, four bytes each.
        case (true, 8):
            guard inode <= UInt32.max else { return nil }
            bytes.replaceSubrange(start..<start + 8, with: Array(number[..<4]) + [0, 0, 0, 0])
        // FILEID_BTRFS_WITHOUT_PARENT: inode number, subvolume, generation.
        case (false, 20) where bytes[4..<start].elementsEqual([0x4D, 0, 0, 0]):
            bytes.replaceSubrange(start..<start + 8, with: number)
            bytes.replaceSubrange(start + 16..<start + 20, with: [0, 0, 0, 0] as [UInt8])
        default: return nil
        }
        return PersistentFileHandle(bytes: bytes)
    }
}

extension OwnedDescriptor {
    /// `name_to_handle_at(2)`; throws EOPNOTSUPP if the file system has no handles.
    package borrowing func persistentHandle() throws(Errno) -> PersistentFileHandle {
        var bytes = [UInt8](repeating: 0, count: Int(CLINUX_HANDLE_SIZE))
        let descriptor = rawValue
        let count = bytes.withUnsafeMutableBytes { clinux_file_handle(descriptor, $0.baseAddress) }
        guard count > 0 else { throw .last }
        return bytes.withUnsafeBufferPointer { PersistentFileHandle(.init(rebasing: $0[..<Int(count)])) }
    }

    /// `open_by_handle_at(2)` with `O_PATH`, on the file system of this open directory (`O_PATH` is not enough).
    ///
    /// Throws EPERM without CAP_DAC_READ_SEARCH, and ESTALE if the file no longer exists.
    package borrowing func path(of handle: PersistentFileHandle) throws(Errno) -> OwnedDescriptor {
        let directory = rawValue
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt {
                handle.bytes.withUnsafeBytes { clinux_open_handle(directory, $0.baseAddress) }
            })
    }
}
