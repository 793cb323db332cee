// SPDX-License-Identifier: Apache-2.0
import FuseBridge
package import LinuxSystem

/// Which number the kernel gets for a file.
///
/// It follows from what the file system below calls the file, so that the next daemon gives it the same one: who takes
/// over a mount must understand the numbers the kernel knows already.
package enum NodeNumbering {
    /// So many of the lowest bits are the caller's choice.
    package static let endingBits: UInt64 = 4
    /// All numbers are below. As items, those from here to 2⁶² are documents that are not called after their node;
    /// those above are nobody's files (`makeItem`).
    package static let end: UInt64 = 1 << 61

    /// `way` is the mount a file was reached by, if it is not the source's: there it is another one.
    static func number(
        of key: FileKey, by way: UInt64, endingIn ending: UInt64, isTaken: (NodeID) -> Bool
    ) -> NodeID {
        let number = number(
            device: key.device ^ way << 32, inode: key.inode, born: key.born, endingIn: ending
        ) { isTaken(NodeID($0)) }
        return NodeID(number)
    }

    /// Two files have one number by an accident of one in 2⁵⁷; the second then gets the next one that is free. So does
    /// a file whose inode number was another's that is still open, where the file system notes no time of birth.
    package static func number(
        device: UInt64, inode: UInt64, born: FileStatus.Time, endingIn ending: UInt64,
        isTaken: (UInt64) -> Bool
    ) -> UInt64 {
        let step: UInt64 = 1 << endingBits
        let seconds = UInt64(bitPattern: born.seconds)
        let mixed = [device, inode, seconds, UInt64(born.nanoseconds)].reduce(0) { mix($0 ^ $1) }
        var number = (mixed & (end - 1) & ~(step - 1)) | ending
        // The first numbers are the root's and nobody's.
        while number < step || isTaken(number) { number = (number + step) & (end - 1) }
        return number
    }

    /// The finalizer of SplitMix64: every bit of the result depends on every bit given.
    private static func mix(_ value: UInt64) -> UInt64 {
        var value = value &+ 0x9E37_79B9_7F4A_7C15
        value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }
}
