// SPDX-License-Identifier: Apache-2.0
import FuseBridge
package import LinuxSystem

/// Which number the kernel gets for a file.
///
/// It follows from what the file system below calls the file, so that the next daemon gives it the same one: who takes
/// over a mount must understand the numbers the kernel knows already. And it leads back to the file, because the
/// kernel's file handles hold nothing else, and may be kept for longer than the kernel remembers the file.
package enum NodeIDEncoding {
    /// All numbers are below. As items, those from here to 2⁶² are documents that are not called after their node;
    /// those above are nobody's files (`makeItem`).
    package static let end: UInt64 = 1 << 61

    /// Numbers from here on lead back to an inode of the source's own file system: its number is in the lowest bits.
    private static let reversible: UInt64 = 1 << 60
    private static let inodeBits: UInt64 = 48
    private static let turns: UInt64 = reversible >> inodeBits

    /// `elsewhere` tells files apart that are not of the source's file system, or were reached by another mount of it.
    ///
    /// A number that is taken is that of a file whose inode number was handed on while it is still open, or belongs to
    /// another file by accident; then it is the next one.
    package static func number(
        inode: UInt64, born: FileStatus.Time, elsewhere: UInt64?, isTaken: (UInt64) -> Bool
    ) -> UInt64 {
        // Without a time of birth the next file of that inode number would be taken for this one.
        if elsewhere == nil, born != FileStatus.Time(seconds: 0, nanoseconds: 0), inode >> inodeBits == 0 {
            let first = digest(of: born) >> inodeBits
            for turn in 0..<turns {
                let number = reversible | ((first + turn) % turns) << inodeBits | inode
                if !isTaken(number) { return number }
            }
        }
        return scattered(inode, digest(of: born) ^ mix(elsewhere ?? 0), isTaken: isTaken)
    }

    /// The inode number that a number was made of; nil if it leads nowhere.
    package static func inode(of number: UInt64) -> UInt64? {
        guard number & reversible != 0, number < end else { return nil }
        return number & (1 << inodeBits - 1)
    }

    /// What tells a file from another that had its inode number before it, in a file handle of 32 bits for it.
    package static func generation(born: FileStatus.Time) -> UInt32 {
        UInt32(truncatingIfNeeded: digest(of: born))
    }

    /// Ends in the lowest bits of the inode number as well: by them the table of nodes is divided.
    private static func scattered(
        _ inode: UInt64, _ rest: UInt64, isTaken: (UInt64) -> Bool
    ) -> UInt64 {
        let step: UInt64 = 1 << 4
        var number = mix(mix(inode) ^ rest) & (reversible - 1) & ~(step - 1) | inode & (step - 1)
        // The first numbers are the root's and nobody's.
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
