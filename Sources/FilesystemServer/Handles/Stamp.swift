// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// The size and times of a file. They are compared to detect a change of the file.
package struct Stamp: Hashable, Sendable {
    let size: UInt64
    let modified: FileStatus.Time
    let changed: FileStatus.Time

    package init(size: UInt64, modified: FileStatus.Time, changed: FileStatus.Time) {
        self.size = size
        self.modified = modified
        self.changed = changed
    }

    package init(_ status: FileStatus) {
        self.init(size: status.size, modified: status.modified, changed: status.changed)
    }

    /// Whether the contents are the same at both stamps. A new or removed name of the file changes only `changed`, which is not
    /// compared here.
    func hasSameContents(as other: Stamp) -> Bool { size == other.size && modified == other.modified }

    /// A hash of the stamp. Two different stamps have the same hash with a probability of one in 2⁶⁴.
    var number: UInt64 {
        var number: UInt64 = 0xCBF2_9CE4_8422_2325
        for part in [
            size, UInt64(bitPattern: modified.seconds), UInt64(modified.nanoseconds),
            UInt64(bitPattern: changed.seconds), UInt64(changed.nanoseconds),
        ] {
            number = (number ^ part) &* 0x0000_0100_0000_01B3
            number ^= number >> 29
        }
        return number
    }
}
