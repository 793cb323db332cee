// SPDX-License-Identifier: Apache-2.0
import Glibc

// Public, unlike the rest of the module: the compiler specialises and inlines in other modules what is public, and not what
// is `package`.

/// One name in a directory: bytes, never text.
///
/// Linux names need not be UTF-8, and Swift's `String` holds two different names for equal when
/// Unicode does. The bytes are borrowed from whatever carries them; being non-copyable and only ever
/// passed `borrowing`, a name cannot be kept beyond it. ``NameBytes`` can.
public struct FileName: ~Copyable {
    public let bytes: UnsafePointer<CChar>

    @inlinable
    public init(borrowing bytes: UnsafePointer<CChar>) { self.bytes = bytes }

    /// `.` or `..`, which a directory lists and nobody looks up but the kernel itself.
    public var isSelfOrParent: Bool {
        let dot = CChar(UInt8(ascii: "."))
        guard bytes[0] == dot else { return false }
        return bytes[1] == 0 || (bytes[1] == dot && bytes[2] == 0)
    }

    public func copy() -> NameBytes {
        let count = strlen(bytes)
        return NameBytes(
            UnsafeRawBufferPointer(start: bytes, count: count).map { $0 })
    }

    public static func == (name: borrowing FileName, literal: StaticString) -> Bool {
        strcmp(name.bytes, UnsafeRawPointer(literal.utf8Start).assumingMemoryBound(to: CChar.self)) == 0
    }
}

/// A name that is kept.
public struct NameBytes: Hashable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]

    public init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Lends the name to a system call.
    ///
    /// Inlined, because unlike the system call itself a generic that is made at run time is not cheap.
    @inlinable
    public func withName<Value: ~Copyable, Failure: Error>(
        _ body: (borrowing FileName) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        // Not in a longer array of its own, which costs as much as the system call.
        try withUnsafeTemporaryAllocation(of: UInt8.self, capacity: bytes.count + 1) {
            (buffer) throws(Failure) in
            let end = buffer.initialize(fromContentsOf: bytes)
            buffer.initializeElement(at: end, to: 0)
            guard let start = UnsafeRawPointer(buffer.baseAddress) else {
                preconditionFailure("a name ends in a zero byte")
            }
            return try body(FileName(borrowing: start.assumingMemoryBound(to: CChar.self)))
        }
    }

    /// For people: invalid UTF-8 is shown by replacement characters.
    public var description: String { String(decoding: bytes, as: UTF8.self) }
}
