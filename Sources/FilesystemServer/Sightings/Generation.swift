// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// A name for the contents of a document at one moment, in the form that programs see.
///
/// | form | for which documents | compared by |
/// |---|---|---|
/// | `eEPOCH-NUMBER` | remembered documents | epoch and number |
/// | `tINODE-BIRTH-SIZE-MTIME` | all others | what the file system below knows of the file |
///
/// The number is raised by the end of a write, a rename over the document, a truncation, and a change around the mount. It is
/// not raised by chmod, link or rename. No two generations of a store have the same number in one epoch. After a crash of the
/// daemon the store has a new epoch, so earlier generations of remembered documents are unknown (D225).
package enum Generation: Hashable, Sendable, CustomStringConvertible {
    case numbered(epoch: UInt64, number: UInt64)
    case token(String)

    /// The extended attribute of each document that has its generation.
    package static let attribute = "user.truce.generation"

    package init(token status: FileStatus) {
        let hex = { (number: UInt64) in String(number, radix: 16) }
        let time = { (time: FileStatus.Time) in
            hex(UInt64(bitPattern: time.seconds)) + "." + hex(UInt64(time.nanoseconds))
        }
        self = .token(
            "t\(hex(status.inode))-\(time(status.born))-\(hex(status.size))-\(time(status.modified))")
    }

    /// Reads a generation in its outer form. Returns nil for any other text.
    package init?(_ text: String) {
        if text.hasPrefix("t"), text.utf8.count > 1,
            text.dropFirst().utf8.allSatisfy({ "0123456789abcdef.-".utf8.contains($0) })
        {
            self = .token(text)
            return
        }
        let parts = text.dropFirst().split(separator: "-", omittingEmptySubsequences: false)
        guard text.hasPrefix("e"), parts.count == 2, let epoch = UInt64(parts[0], radix: 16),
            let number = UInt64(parts[1])
        else { return nil }
        self = .numbered(epoch: epoch, number: number)
    }

    package var description: String {
        switch self {
        case .numbered(let epoch, let number): "e\(String(epoch, radix: 16))-\(number)"
        case .token(let text): text
        }
    }
}
