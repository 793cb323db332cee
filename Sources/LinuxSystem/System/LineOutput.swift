// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Whole lines to a terminal, a pipe or nothing.
///
/// All that people read goes through ``say(_:to:)``. A name of another user's choice is in many a line, and cannot end it,
/// turn it around or command the terminal: only the caller says where a line ends.
package enum LineOutput {
    package static func say(_ line: String, to descriptor: CInt) { say([line], to: descriptor) }

    package static func say(_ lines: [String], to descriptor: CInt) {
        writeExactly(lines.flatMap { Array(($0.printable + "\n").utf8) }, to: descriptor)
    }

    /// For programs: every byte as it is. A reader that is gone is no loss.
    package static func writeExactly(_ bytes: [UInt8], to descriptor: CInt) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written < 0 && errno == EINTR { continue }
            guard written > 0 else { return }
            rest = rest.dropFirst(written)
        }
    }

    /// A line of JSON.
    package static func writeExactly(line: [UInt8], to descriptor: CInt) {
        writeExactly(line + [UInt8(ascii: "\n")], to: descriptor)
    }
}
