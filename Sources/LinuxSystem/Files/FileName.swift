// SPDX-License-Identifier: Apache-2.0
import Glibc

// This type is public, unlike the rest of the module. The compiler specialises and inlines public declarations in other
// modules, but not `package` declarations.

/// A name in a directory, as bytes and never as text.
///
/// Linux names need not be UTF-8, and Swift's `String` treats two different names as equal if Unicode does. A `FileName` does
/// not own its bytes. It cannot outlive the bytes, because it is non-copyable and only passed `borrowing`. A ``NameBytes`` owns
/// its bytes.
public struct FileName: ~Copyable {
    public let bytes: UnsafePointer<CChar>

    @inlinable
    public init(borrowing bytes: UnsafePointer<CChar>) { self.bytes = bytes }

    /// Whether the name is `.` or `..`. A listing of a directory contains these two names.
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

/// A name that owns its bytes.
public struct NameBytes: Hashable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]

    public init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Calls `body` with the name as a C string, for use in a system call.
    ///
    /// The method is inlined, because a call of the generic form takes long compared to the system call.
    @inlinable
    public func withName<Value: ~Copyable, Failure: Error>(
        _ body: (borrowing FileName) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        // The bytes are copied into a temporary allocation, because to allocate a new array takes as long as the system call.
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

    /// The name as text for people. A replacement character stands for each byte that is not valid UTF-8.
    public var description: String { String(decoding: bytes, as: UTF8.self) }
}
