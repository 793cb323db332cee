// SPDX-License-Identifier: Apache-2.0
package import LinuxSystem

/// The file `kept.log`. Lines are appended to it. When most of its lines are about versions that are gone, it is rewritten
/// without them.
///
/// A crash can cut off the last line. The next append begins with a newline, and every reader skips the incomplete line.
struct VersionLog: ~Copyable, Sendable {
    /// The most bytes of a line. A path of 4,096 bytes and an access control list of 64 KiB, in base64, fit into a line.
    private static let longestLine = 1 << 18
    private static let page = 1 << 16

    private let file: OwnedDescriptor
    private let synchronize: Synchronisation
    /// Whether the last line ends without a newline, because a crash or an error cut it off.
    private var isTorn: Bool

    init(
        _ file: consuming OwnedDescriptor, synchronisingBy synchronize: @escaping Synchronisation
    ) throws(Errno) {
        isTorn = try Self.isTorn(file, size: Int(file.status().size))
        self.file = file
        self.synchronize = synchronize
    }

    deinit { file.unlock() }

    private static func isTorn(_ file: borrowing OwnedDescriptor, size: Int) throws(Errno) -> Bool {
        guard size > 0 else { return false }
        return try file.read(at: size - 1, count: 1) != [UInt8(ascii: "\n")]
    }

    /// Appends a line and brings it to the disk; the disk quota of `owner` is charged. After an error, the log contains no part
    /// of the line.
    ///
    /// The log is open for writing only during this call. A file that is open for writing would prevent the remount of its file
    /// system as read-only.
    ///
    /// With `.deferred`, the line is not brought to the disk. It survives a kill of the daemon, but not a power cut.
    mutating func append(
        _ line: [UInt8], owner: QuotaOwner = .root, _ durability: Durability = .immediate
    ) throws(Errno) {
        let file = try file.reopenForAppending()
        let size = try file.status().size
        do throws(Errno) {
            let bytes = isTorn ? [UInt8(ascii: "\n")] + line : line
            try ThreadIdentity.withQuota(of: owner.user, group: owner.group) { () throws(Errno) in
                try file.writeAll(bytes)
            }
            isTorn = false
            if durability == .immediate { try synchronize(file) }
        } catch {
            isTorn = true
            try file.shorten(to: Int(size))
            isTorn = try Self.isTorn(file, size: Int(size))
            throw error
        }
    }

    /// The size of the log in bytes. The bytes up to this size do not change later.
    borrowing func size() throws(Errno) -> Int { try Int(file.status().size) }

    /// Returns a descriptor of the log for reading. The descriptor stays usable when another file replaces the log.
    borrowing func reader() throws(Errno) -> OwnedDescriptor {
        try OwnedDescriptor.duplicating(file.rawValue)
    }

    /// Calls `body` for each line in the first `size` bytes of a log, oldest first. Returns the number of lines that could not
    /// be decoded.
    static func forEach(
        in file: borrowing OwnedDescriptor, upTo size: Int, _ body: (LogLine) -> Void
    ) throws(Errno) -> Int {
        var unreadable = 0
        try forEachText(in: file, upTo: size) { text in
            if let line = LogLine.read(text) { body(line) } else { unreadable += 1 }
        }
        return unreadable
    }

    /// Calls `body` with the text of each line in the first `size` bytes of a log, without the newline, oldest first.
    ///
    /// The last line is included even if its newline is missing, because all other bytes of the line can be complete. Only this
    /// line contains the path of its version.
    static func forEachText(
        in file: borrowing OwnedDescriptor, upTo size: Int, _ body: (ArraySlice<UInt8>) -> Void
    ) throws(Errno) {
        var offset = 0
        func handOn(_ bytes: ArraySlice<UInt8>) { if !bytes.isEmpty { body(bytes) } }
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
            if page.count < Self.page { return handOn(rest) }
            pending = rest.count > Self.longestLine ? [] : Array(rest)
        }
    }
}

/// Brings a file or directory of the store to the disk, as fsync(2) does.
package typealias Synchronisation = @Sendable (borrowing OwnedDescriptor) throws(Errno) -> Void

/// The user and the group to which the disk quota charges written bytes.
struct QuotaOwner: Hashable, Sendable {
    let user: UInt32
    let group: UInt32

    static let root = QuotaOwner(user: 0, group: 0)

    init(user: UInt32, group: UInt32) {
        self.user = user
        self.group = group
    }

    init(_ rights: FileRights) { self.init(user: rights.user, group: rights.group) }
}
