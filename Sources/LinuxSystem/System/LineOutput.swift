// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Writes whole lines to a terminal, a pipe or `/dev/null`.
///
/// All output for people goes through ``say(_:to:)``. Many lines contain a name that another user chose. Such a name must not
/// end the line, change the direction of the text or control the terminal. So ``say(_:to:)`` makes the line printable and ends
/// it.
package enum LineOutput {
    package static func say(_ line: String, to descriptor: CInt) { say([line], to: descriptor) }

    package static func say(_ lines: [String], to descriptor: CInt) {
        writeExactly(lines.flatMap { Array(($0.printable + "\n").utf8) }, to: descriptor)
    }

    /// Writes every byte unchanged, for programs that read the output. If the reader has closed the output, no error is thrown.
    package static func writeExactly(_ bytes: [UInt8], to descriptor: CInt) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written < 0 && errno == EINTR { continue }
            guard written > 0 else { return }
            rest = rest.dropFirst(written)
        }
    }

    /// Writes a line of JSON and a newline.
    package static func writeExactly(line: [UInt8], to descriptor: CInt) {
        writeExactly(line + [UInt8(ascii: "\n")], to: descriptor)
    }
}
