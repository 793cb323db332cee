// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A permanent identification of a file on its file system: `name_to_handle_at(2)`. A rename of the file does not change it.
package struct PersistentFileHandle: Hashable, Sendable {
    /// The parts of `struct file_handle`: the size of the identification, its type, and the identification.
    fileprivate let bytes: [UInt8]

    private init(bytes: [UInt8]) { self.bytes = bytes }

    /// Creates a handle from the bytes that the kernel returned.
    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.init(bytes: Array(bytes)) }

    /// Returns a handle of the same form for the file that has the inode number now.
    ///
    /// Returns nil if the handle has neither of the two forms in the code. ext4, F2FS and Btrfs accept generation 0 for any
    /// generation. XFS uses the first form too, but finds most files only with their true generation.
    package func withInode(to inode: UInt64) -> PersistentFileHandle? {
        var bytes = bytes
        let start = 2 * MemoryLayout<UInt32>.size
        guard bytes.count > start else { return nil }
        let number = withUnsafeBytes(of: inode) { Array($0) }
        switch (bytes[4..<start].elementsEqual([1, 0, 0, 0]), bytes.count - start) {
        // This form is FILEID_INO32_GEN of include/linux/exportfs.h: inode number and generation, four bytes each.
        case (true, 8):
            guard inode <= UInt32.max else { return nil }
            bytes.replaceSubrange(start..<start + 8, with: Array(number[..<4]) + [0, 0, 0, 0])
        // This form is FILEID_BTRFS_WITHOUT_PARENT: inode number, subvolume, generation.
        case (false, 20) where bytes[4..<start].elementsEqual([0x4D, 0, 0, 0]):
            bytes.replaceSubrange(start..<start + 8, with: number)
            bytes.replaceSubrange(start + 16..<start + 20, with: [0, 0, 0, 0] as [UInt8])
        default: return nil
        }
        return PersistentFileHandle(bytes: bytes)
    }
}

extension OwnedDescriptor {
    /// `name_to_handle_at(2)`: returns the handle of this file; throws EOPNOTSUPP if the file system has no handles.
    package borrowing func persistentHandle() throws(Errno) -> PersistentFileHandle {
        var bytes = [UInt8](repeating: 0, count: Int(CLINUX_HANDLE_SIZE))
        let descriptor = rawValue
        let count = bytes.withUnsafeMutableBytes { clinux_file_handle(descriptor, $0.baseAddress) }
        guard count > 0 else { throw .last }
        return bytes.withUnsafeBufferPointer { PersistentFileHandle(.init(rebasing: $0[..<Int(count)])) }
    }

    /// `open_by_handle_at(2)` with `O_PATH`: finds the file of a handle on the file system that contains this directory.
    ///
    /// The directory must be open for reading; an `O_PATH` descriptor is not enough. Throws EPERM without CAP_DAC_READ_SEARCH,
    /// and ESTALE if the file does not exist any more.
    package borrowing func path(of handle: PersistentFileHandle) throws(Errno) -> OwnedDescriptor {
        let directory = rawValue
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt {
                handle.bytes.withUnsafeBytes { clinux_open_handle(directory, $0.baseAddress) }
            })
    }
}
