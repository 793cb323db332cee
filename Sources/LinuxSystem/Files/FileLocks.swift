// SPDX-License-Identifier: Apache-2.0

/// Finds out from `/proc` whether programs hold locks on their open files.
package enum FileLocks {
    private static let label = Array("lock:".utf8)
    /// The kernel's names for `flock(2)` locks and for the two kinds of `fcntl(2)` locks. Other entries in the list are leases,
    /// which are not locks.
    private static let kinds = ["FLOCK", "POSIX", "OFDLCK"].map { Array($0.utf8) }

    /// Returns whether the text of `/proc/PID/fdinfo/FD` lists a lock that was taken through this descriptor.
    ///
    /// Such a line is `lock:  1: FLOCK  ADVISORY  WRITE 4711 00:35:7 0 EOF`.
    package static func areHeld(by text: [UInt8]) -> Bool {
        text.split(separator: UInt8(ascii: "\n")).contains { line in
            guard line.starts(with: label) else { return false }
            let words = line.dropFirst(label.count).split { $0 == 9 || $0 == 32 }
            return words.count > 1 && kinds.contains(Array(words[words.startIndex + 1]))
        }
    }
}
