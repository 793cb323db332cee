// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// `kept.log`: appended to and never rewritten.
///
/// A line that a crash tore is closed by the newline the next append begins with, and skipped by every
/// reader.
struct KeptLog: ~Copyable, Sendable {
    /// No line of the daemon's is longer: a path of 4,096 bytes and a list of 64 KiB, in base64 and escaped.
    private static let longestLine = 1 << 18
    private static let page = 1 << 16

    private let file: OwnedDescriptor
    /// The last line has no newline yet.
    private var isTorn: Bool

    init(_ file: consuming OwnedDescriptor) throws(Errno) {
        isTorn = try Self.isTorn(file, size: Int(file.status().size))
        self.file = file
    }

    deinit { file.unlock() }

    private static func isTorn(_ file: borrowing OwnedDescriptor, size: Int) throws(Errno) -> Bool {
        guard size > 0 else { return false }
        return try file.read(at: size - 1, count: 1) != [UInt8(ascii: "\n")]
    }

    /// Appends a line and makes it durable; after an error the log holds no part of it.
    ///
    /// The log is open for writing only meanwhile: nobody can make a file system read-only in which a file is.
    mutating func append(_ line: [UInt8]) throws(Errno) {
        let file = try file.reopenedForAppending()
        let size = try file.status().size
        do throws(Errno) {
            try file.writeAll(isTorn ? [UInt8(ascii: "\n")] + line : line)
            isTorn = false
            try file.synchronise()
        } catch {
            isTorn = true
            try file.shorten(to: Int(size))
            isTorn = try Self.isTorn(file, size: Int(size))
            throw error
        }
    }

    /// How long the log is; what is before its end stays as it is.
    borrowing func size() throws(Errno) -> Int { try Int(file.status().size) }

    /// Hands every line of a log's beginning to `body`, oldest first, and says how many could not be read.
    ///
    /// A last line that lacks nothing but its newline counts: its file is there, and its path is known
    /// from nowhere else.
    static func forEach(
        in file: borrowing OwnedDescriptor, upTo size: Int, _ body: (LogLine) -> Void
    ) throws(Errno) -> Int {
        var (offset, unreadable) = (0, 0)
        func handOn(_ bytes: ArraySlice<UInt8>) {
            guard !bytes.isEmpty else { return }
            if let line = LogLine.read(bytes) { body(line) } else { unreadable += 1 }
        }
        var pending: [UInt8] = []
        while true {
            let page = try file.read(at: offset, count: min(Self.page, size - offset))
            offset += page.count
            pending += page
            var rest = pending[...]
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                handOn(rest[..<end])
                rest = rest[(end + 1)...]
            }
            if page.count < Self.page {
                handOn(rest)
                return unreadable
            }
            pending = rest.count > Self.longestLine ? [] : Array(rest)
        }
    }
}
