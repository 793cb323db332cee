// SPDX-License-Identifier: Apache-2.0
import FuseBridge
package import LinuxSystem

/// The number by which the kernel knows a file.
///
/// It follows from the identity of the file below, so the next daemon assigns the same one. A daemon that takes over a
/// mount must understand the numbers that the kernel already knows. The number also leads back to the file: the kernel's
/// file handles contain nothing else, and may outlive the kernel's inode.
package enum NodeIDEncoding {
    /// All numbers are below this. Items from here to 2⁶² are documents that do not have their node's number. Items above
    /// 2⁶² belong to no file (`makeItem`).
    package static let end: UInt64 = 1 << 61

    /// Numbers from here on contain, in their lowest bits, the inode number in the source's own file system.
    private static let reversible: UInt64 = 1 << 60
    private static let inodeBits: UInt64 = 48
    private static let turns: UInt64 = reversible >> inodeBits

    /// Returns the number of a file, or the next free one if it is taken.
    ///
    /// A number is taken by an open file that had the same inode number before, or by a collision. `elsewhere` identifies
    /// the file system or mount of a file that was not reached through the source's own mount.
    package static func number(
        inode: UInt64, born: FileStatus.Time, elsewhere: UInt64?, isTaken: (UInt64) -> Bool
    ) -> UInt64 {
        // Without a time of birth, the next file with that inode number would be taken for this one.
        if elsewhere == nil, born != FileStatus.Time(seconds: 0, nanoseconds: 0), inode >> inodeBits == 0 {
            let first = digest(of: born) >> inodeBits
            for turn in 0..<turns {
                let number = reversible | ((first + turn) % turns) << inodeBits | inode
                if !isTaken(number) { return number }
            }
        }
        return scattered(inode, digest(of: born) ^ mix(elsewhere ?? 0), isTaken: isTaken)
    }

    /// The inode number inside a number; nil if it contains none.
    package static func inode(of number: UInt64) -> UInt64? {
        guard number & reversible != 0, number < end else { return nil }
        return number & (1 << inodeBits - 1)
    }

    /// Tells a file from an earlier one with the same inode number. A kernel file handle has 32 bits for it.
    package static func generation(born: FileStatus.Time) -> UInt32 {
        UInt32(truncatingIfNeeded: digest(of: born))
    }

    /// The result ends in the lowest bits of the inode number, which choose the shard of the node table.
    private static func scattered(
        _ inode: UInt64, _ rest: UInt64, isTaken: (UInt64) -> Bool
    ) -> UInt64 {
        let step: UInt64 = 1 << 4
        var number = mix(mix(inode) ^ rest) & (reversible - 1) & ~(step - 1) | inode & (step - 1)
        // The first numbers are reserved for the root, or unused.
        while number < step || isTaken(number) { number = (number + step) & (reversible - 1) }
        return number
    }

    private static func digest(of born: FileStatus.Time) -> UInt64 {
        mix(mix(UInt64(bitPattern: born.seconds)) ^ UInt64(born.nanoseconds))
    }

    /// The finalizer of SplitMix64: every bit of the result depends on every bit given.
    private static func mix(_ value: UInt64) -> UInt64 {
        var value = value &+ 0x9E37_79B9_7F4A_7C15
        value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }
}
