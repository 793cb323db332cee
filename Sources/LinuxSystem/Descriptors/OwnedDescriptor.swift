// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The sole owner of an open file descriptor.
///
/// The type is non-copyable, so that no caller can close a descriptor twice, use a closed descriptor, or forget to close a
/// descriptor.
package struct OwnedDescriptor: ~Copyable, Sendable {
    package let rawValue: CInt

    package init(adopting rawValue: CInt) {
        precondition(rawValue >= 0)
        self.rawValue = rawValue
    }

    // An error of close(2) is ignored here, because `deinit` has no caller to receive it.
    deinit { _ = Glibc.close(rawValue) }

    /// Ends this value without closing the descriptor, and returns the descriptor. The caller must close it.
    package consuming func release() -> CInt {
        let rawValue = rawValue
        discard self
        return rawValue
    }

    /// Creates a second descriptor of the open file that `descriptor` refers to.
    package static func duplicating(_ descriptor: CInt) throws(Errno) -> OwnedDescriptor {
        OwnedDescriptor(adopting: try retryingOnInterrupt { fcntl(descriptor, F_DUPFD_CLOEXEC, 0) })
    }

    /// Returns a descriptor that refers to a directory without opening it for reading: `open(2)` with `O_PATH`.
    package static func openPath(_ path: UnsafePointer<CChar>) throws(Errno) -> OwnedDescriptor {
        let flags = CLINUX_O_PATH | O_DIRECTORY | O_CLOEXEC
        return OwnedDescriptor(adopting: try retryingOnInterrupt { open(path, flags) })
    }

    /// Returns an `O_PATH` descriptor for a path without symbolic links. Throws ELOOP if the path now contains a symbolic link.
    package static func openResolved(_ path: [UInt8]) throws(Errno) -> OwnedDescriptor {
        try path.withPath { (path) throws(Errno) in
            try openDirectory(path, in: AT_FDCWD)
        }
    }

    /// Returns an `O_PATH` descriptor for a path that begins at this directory and contains no symbolic link.
    package borrowing func openResolved(_ path: [UInt8]) throws(Errno) -> OwnedDescriptor {
        try path.withPath { [rawValue] (path) throws(Errno) in
            try Self.openDirectory(path, in: rawValue)
        }
    }

    /// Opens the directory that contains this directory.
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

    /// Opens the file to which this `O_PATH` descriptor refers, through the descriptor's link in `/proc`.
    package borrowing func reopen(flags: CInt) throws(Errno) -> OwnedDescriptor {
        let descriptor = rawValue
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt {
                withDescriptorPath(descriptor) { open($0, flags & ~O_NOFOLLOW | O_CLOEXEC) }
            })
    }
}

/// Calls `body` with the path in `/proc` that leads to the file of an `O_PATH` descriptor.
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
