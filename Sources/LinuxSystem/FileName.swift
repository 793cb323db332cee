// SPDX-License-Identifier: Apache-2.0
/// One name in a directory: bytes, never text.
///
/// Linux names need not be UTF-8, and Swift's `String` holds two different names for equal when
/// Unicode does. The bytes are borrowed from the request that carries them; being non-copyable and
/// only ever passed `borrowing`, a name cannot be kept beyond it.
package struct FileName: ~Copyable {
    package let bytes: UnsafePointer<CChar>

    package init(borrowing bytes: UnsafePointer<CChar>) { self.bytes = bytes }

    /// `.` or `..`, which a directory lists and nobody looks up.
    package var isSelfOrParent: Bool {
        let dot = CChar(UInt8(ascii: "."))
        guard bytes[0] == dot else { return false }
        return bytes[1] == 0 || (bytes[1] == dot && bytes[2] == 0)
    }
}
