// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Reports changes that any process makes in directories.
///
/// If root creates the watch and the file system has file handles for its directories, the watch covers the whole file system.
/// Otherwise it covers each directory that a caller has added.
package final class ChangeWatch: Sendable {
    /// The kernel's interface that reports the changes: fanotify for a whole file system, inotify for single directories.
    package enum Kind: String, Sendable { case fanotify, inotify }

    package struct ChangeMask: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// A new file or directory has appeared under the name.
        package static let appeared = Self(rawValue: 1)
        /// The file or directory has lost the name.
        package static let vanished = Self(rawValue: 2)
        package static let written = Self(rawValue: 4)
        /// A process has closed a file that it could write to. The process could also have written through a mapping of the
        /// file.
        package static let closed = Self(rawValue: 8)
        package static let attributes = Self(rawValue: 16)
        /// The change concerns a directory, not a file.
        package static let directory = Self(rawValue: 32)
    }

    /// The kernel's identification of a watched directory: a file handle for fanotify, the number of the directory's watch for
    /// inotify.
    package enum Directory: Hashable, Sendable {
        case handle(PersistentFileHandle)
        case watch(Int32)
    }

    package struct Change: Sendable {
        package var mask: ChangeMask
        /// The process that made the change, or 0 if the kernel does not report the process.
        package var process: Int32
        package var directory: Directory
        /// The name of the changed file in the directory; empty if the directory itself has changed.
        package var name: [UInt8]
    }

    /// The changes that one read from the kernel's queue returns.
    package struct Changes: Sendable {
        package var changes: [Change] = []
        /// The numbers of the watches that have ended because their directories were removed.
        package var ended: [Int32] = []
        /// Whether the kernel's queue was full, so that changes are missing. Any file can have changed in this case.
        package var hasOverflowed = false
    }

    private static let bufferSize = 64 << 10

    package let kind: Kind
    private let descriptor: OwnedDescriptor

    /// Watches the whole file system that contains a directory.
    ///
    /// Throws EPERM without CAP_SYS_ADMIN, and ENODEV, EXDEV or EOPNOTSUPP if the file system has no suitable file handles for
    /// directories.
    package convenience init(fileSystemOf directory: borrowing OwnedDescriptor) throws(Errno) {
        try self.init(directory, attributesOnly: false)
    }

    /// Watches the whole file system that contains a directory, for changes of attributes alone.
    ///
    /// The watch does not report that a file loses a name by `unlink`.
    package convenience init(attributesIn directory: borrowing OwnedDescriptor) throws(Errno) {
        try self.init(directory, attributesOnly: true)
    }

    private init(_ directory: borrowing OwnedDescriptor, attributesOnly: Bool) throws(Errno) {
        let descriptor = clinux_fanotify(directory.rawValue, attributesOnly)
        guard descriptor >= 0 else { throw .last }
        self.descriptor = OwnedDescriptor(adopting: descriptor)
        kind = .fanotify
    }

    /// Creates a watch that reports no changes until the caller adds directories.
    package init() throws(Errno) {
        let descriptor = clinux_inotify()
        guard descriptor >= 0 else { throw .last }
        self.descriptor = OwnedDescriptor(adopting: descriptor)
        kind = .inotify
    }

    /// Adds a directory, and returns the number of the directory's watch.
    ///
    /// A second call for the same directory returns the same number. Throws ENOSPC if the user has reached the kernel's limit
    /// of watches.
    package func add(_ directory: borrowing OwnedDescriptor) throws(Errno) -> Int32 {
        try add(directory, eachWrite: true)
    }

    /// Adds a directory like ``add(_:)``, but its files' changes are reported only when a writer closes the file.
    package func addNames(of directory: borrowing OwnedDescriptor) throws(Errno) -> Int32 {
        try add(directory, eachWrite: false)
    }

    private func add(_ directory: borrowing OwnedDescriptor, eachWrite: Bool) throws(Errno) -> Int32 {
        let watch = clinux_inotify_add(descriptor.rawValue, directory.rawValue, eachWrite)
        guard watch >= 0 else { throw .last }
        return watch
    }

    /// Removes the watch of a directory. Does nothing if the kernel has ended the watch because the directory was removed.
    package func remove(_ watch: Int32) { _ = clinux_inotify_remove(descriptor.rawValue, watch) }

    /// Sleeps until changes can be read, or until `moment`, which is a time of the monotonic clock in nanoseconds.
    ///
    /// Returns whether changes can be read.
    package func wait(until moment: UInt64?) -> Bool {
        let now = MonotonicClock.nanoseconds
        let left = moment.map { $0 > now ? Int64(clamping: $0 - now) : 0 } ?? -1
        return clinux_poll_until(descriptor.rawValue, left) > 0
    }

    /// Reads up to 64 KiB of changes without waiting. The result is empty if there are no changes.
    package func read() throws(Errno) -> Changes {
        var buffer = [UInt64](repeating: 0, count: Self.bufferSize / 8)
        let file = descriptor.rawValue
        let size: Int
        do throws(Errno) {
            size = try retryingOnInterrupt { Glibc.read(file, &buffer, Self.bufferSize) }
        } catch {
            guard error.rawValue == EAGAIN else { throw error }
            return Changes()
        }
        var read = Changes()
        buffer.withUnsafeBytes { bytes in
            var rest = UnsafeRawBufferPointer(rebasing: bytes[..<size])
            var change = clinux_change()
            while !rest.isEmpty {
                let length =
                    kind == .fanotify
                    ? clinux_next_fanotify(rest.baseAddress, rest.count, &change)
                    : clinux_next_inotify(rest.baseAddress, rest.count, &change)
                guard length > 0, length <= rest.count else { break }
                add(change, to: &read)
                rest = UnsafeRawBufferPointer(rebasing: rest[length...])
            }
        }
        return read
    }

    private func add(_ change: clinux_change, to read: inout Changes) {
        if change.overflow != 0 { return read.hasOverflowed = true }
        if change.ended != 0 { return read.ended.append(change.watch) }
        let directory: Directory
        switch kind {
        case .fanotify:
            // The kernel sends no file handle for a file without a name, or for a file that is being removed. Such a change is
            // not reported.
            guard let handle = change.handle else { return }
            directory = .handle(
                PersistentFileHandle(UnsafeBufferPointer(start: handle, count: change.handle_size)))
        case .inotify: directory = .watch(change.watch)
        }
        var mask: ChangeMask = []
        if change.appeared != 0 { mask.insert(.appeared) }
        if change.vanished != 0 { mask.insert(.vanished) }
        if change.written != 0 { mask.insert(.written) }
        if change.closed != 0 { mask.insert(.closed) }
        if change.attributes != 0 { mask.insert(.attributes) }
        if change.is_directory != 0 { mask.insert(.directory) }
        var name: [UInt8] = []
        if let start = change.name {
            name = UnsafeBufferPointer(start: start, count: strlen(start)).map { UInt8(bitPattern: $0) }
        }
        if name == [UInt8(ascii: ".")] { name = [] }
        read.changes.append(
            Change(mask: mask, process: change.process, directory: directory, name: name))
    }
}
