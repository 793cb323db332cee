// SPDX-License-Identifier: Apache-2.0
import FuseBridge
package import LinuxSystem

/// Computes the number by which the kernel knows a file.
///
/// The number is computed from the file below. So a daemon that takes over the mount computes the same numbers and understands
/// those that the kernel already knows. The daemon can also find a file by its number. The kernel's file handles contain only
/// this number, and programs may use them after the kernel has forgotten the inode.
package enum NodeIDEncoding {
    /// All node numbers are below this number. Items from this number up to 2⁶² are documents with a number other than their
    /// node's number. Items above 2⁶² belong to no file (`makeItem`).
    package static let end: UInt64 = 1 << 61

    /// Numbers of at least this value contain an inode number of the source's own file system, in their lowest 48 bits.
    private static let reversible: UInt64 = 1 << 60
    private static let inodeBits: UInt64 = 48
    private static let turns: UInt64 = reversible >> inodeBits

    /// Returns the number of a file. If another file has that number, returns the next free number.
    ///
    /// Another file can have the number for two reasons: by a collision, or because an earlier file with the same inode
    /// number is still open. `elsewhere` identifies the file system or mount of a file that is not on the source's own
    /// mount.
    package static func number(
        inode: UInt64, born: FileStatus.Time, elsewhere: UInt64?, isTaken: (UInt64) -> Bool
    ) -> UInt64 {
        // Without a time of birth, this file could not be distinguished from a later file with the same inode number.
        if elsewhere == nil, born != FileStatus.Time(seconds: 0, nanoseconds: 0), inode >> inodeBits == 0 {
            let first = digest(of: born) >> inodeBits
            for turn in 0..<turns {
                let number = reversible | ((first + turn) % turns) << inodeBits | inode
                if !isTaken(number) { return number }
            }
        }
        return scattered(inode, digest(of: born) ^ mix(elsewhere ?? 0), isTaken: isTaken)
    }

    /// The inode number that a node number contains; nil if it contains none.
    package static func inode(of number: UInt64) -> UInt64? {
        guard number & reversible != 0, number < end else { return nil }
        return number & (1 << inodeBits - 1)
    }

    /// A number that distinguishes a file from earlier files with the same inode number. The kernel's file handles have 32 bits
    /// for it.
    package static func generation(born: FileStatus.Time) -> UInt32 {
        UInt32(truncatingIfNeeded: digest(of: born))
    }

    /// A node number by which the daemon cannot find the file below. The lowest bits are those of the inode number, because
    /// these bits choose the shard of the node table.
    private static func scattered(
        _ inode: UInt64, _ rest: UInt64, isTaken: (UInt64) -> Bool
    ) -> UInt64 {
        let step: UInt64 = 1 << 4
        var number = mix(mix(inode) ^ rest) & (reversible - 1) & ~(step - 1) | inode & (step - 1)
        // The lowest numbers are not used, except for the root.
        while number < step || isTaken(number) { number = (number + step) & (reversible - 1) }
        return number
    }

    private static func digest(of born: FileStatus.Time) -> UInt64 {
        mix(mix(UInt64(bitPattern: born.seconds)) ^ UInt64(born.nanoseconds))
    }

    /// Scatters a value by the finalizer of SplitMix64: each bit of the result depends on all bits of the value.
    private static func mix(_ value: UInt64) -> UInt64 {
        var value = value &+ 0x9E37_79B9_7F4A_7C15
        value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }
}
