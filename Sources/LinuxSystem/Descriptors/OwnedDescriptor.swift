// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The one owner of an open file descriptor.
///
/// Non-copyable: a descriptor cannot be closed twice, used after it was closed, or forgotten.
package struct OwnedDescriptor: ~Copyable, Sendable {
    package let rawValue: CInt

    package init(adopting rawValue: CInt) {
        precondition(rawValue >= 0)
        self.rawValue = rawValue
    }

    // Last resort: there is nobody left to hear about an error.
    deinit { _ = Glibc.close(rawValue) }

    /// Gives up ownership, to something that closes the descriptor itself.
    package consuming func release() -> CInt {
        let rawValue = rawValue
        discard self
        return rawValue
    }

    /// Takes a second descriptor for the same open file.
    package static func duplicating(_ descriptor: CInt) throws(Errno) -> OwnedDescriptor {
        OwnedDescriptor(adopting: try retryingOnInterrupt { fcntl(descriptor, F_DUPFD_CLOEXEC, 0) })
    }

    /// `open(2)` with `O_PATH`: names the directory without opening it.
    package static func openPath(_ path: UnsafePointer<CChar>) throws(Errno) -> OwnedDescriptor {
        let flags = CLINUX_O_PATH | O_DIRECTORY | O_CLOEXEC
        return OwnedDescriptor(adopting: try retryingOnInterrupt { open(path, flags) })
    }

    /// The same for a path that is known to have no links in it; throws ELOOP if it has become one with links meanwhile.
    package static func openResolved(_ path: [UInt8]) throws(Errno) -> OwnedDescriptor {
        try path.withPath { (path) throws(Errno) in
            try openDirectory(path, in: AT_FDCWD)
        }
    }

    /// The same from this directory on.
    package borrowing func openResolved(_ path: [UInt8]) throws(Errno) -> OwnedDescriptor {
        try path.withPath { [rawValue] (path) throws(Errno) in
            try Self.openDirectory(path, in: rawValue)
        }
    }

    /// The directory that this one is in.
    package borrowing func parent() throws(Errno) -> OwnedDescriptor {
        try Array("..".utf8).withPath { [rawValue] (path) throws(Errno) in
            try Self.openDirectory(path, in: rawValue)
        }
    }

    private static func openDirectory(
        _ path: UnsafePointer<CChar>, in directory: CInt
    ) throws(Errno) -> OwnedDescriptor {
        let flags = UInt64(CLINUX_O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt {
                clinux_openat2(directory, path, flags, 0, CLINUX_RESOLVE_NO_SYMLINKS)
            })
    }

    /// `openat(2)` of whatever an `O_PATH` descriptor names, by way of `/proc`.
    package borrowing func reopen(flags: CInt) throws(Errno) -> OwnedDescriptor {
        let descriptor = rawValue
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt {
                withDescriptorPath(descriptor) { open($0, flags & ~O_NOFOLLOW | O_CLOEXEC) }
            })
    }
}

/// Lends the path in `/proc` through which an `O_PATH` descriptor's file is reached.
@inline(__always)
func withDescriptorPath<Value>(_ descriptor: CInt, _ body: (UnsafePointer<CChar>) -> Value) -> Value {
    var path: InlineArray<32, CChar> = InlineArray(repeating: 0)
    var span = path.mutableSpan
    return span.withUnsafeMutableBufferPointer { buffer in
        var position = 0
        for byte in "/proc/self/fd/".utf8 {
            buffer[position] = CChar(bitPattern: byte)
            position += 1
        }
        let digits = String(descriptor).utf8
        for byte in digits {
            buffer[position] = CChar(bitPattern: byte)
            position += 1
        }
        buffer[position] = 0
        guard let start = buffer.baseAddress else { preconditionFailure("an inline array has an address") }
        return body(start)
    }
}
