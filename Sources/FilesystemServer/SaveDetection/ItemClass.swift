// SPDX-License-Identifier: Apache-2.0

/// How a file is treated when programs contend for it, as far as its name or first bytes tell.
package enum ItemClass: String, Hashable, Sendable, CaseIterable {
    /// A user's file: programs take turns.
    case document
    /// A program's own helper file: no claims, no presenters, no versions.
    case `private`
    /// Programs lock byte ranges themselves: no exclusion among unmodified programs.
    case database
    /// Appenders and readers do not wait for each other.
    case log
    /// Of interest to backup, sync and indexing only. No default name has this class, but rules may set it.
    case background

    /// The class that a name has without a rule.
    package init(of name: [UInt8], in place: HelperFileName.DirectoryKind = .ordinary) {
        if HelperFileName.isUnambiguous(name, in: place) {
            self = .private
        } else {
            self = classNames.first(for: name)?.itemClass ?? .document
        }
    }

    /// How many bytes tell whether a file is a database.
    package static let databaseHeaderLength = 20

    /// Whether a file that begins with these bytes is a database of SQLite or LMDB, whatever its name.
    ///
    /// From "Database File Format", 1.3.1: the first 16 bytes are this text and a zero byte.
    package static func isDatabaseHeader(_ bytes: [UInt8]) -> Bool {
        bytes.starts(with: Array("SQLite format 3".utf8) + [0]) || isLMDBHeader(bytes)
    }

    /// Whether these bytes begin an LMDB database, which has its locks in another file.
    ///
    /// From `MDB_page`, `P_META` and `MDB_MAGIC` in its `mdb.c`. Bytes 10 and 11 of page 0 hold the flag of a meta
    /// page. The magic number is first in its contents, in the machine's byte order.
    private static func isLMDBHeader(_ bytes: [UInt8]) -> Bool {
        guard bytes.count >= databaseHeaderLength else { return false }
        let number = withUnsafeBytes(of: UInt32(0xBEEF_C0DE)) { Array($0) }
        let flags = withUnsafeBytes(of: UInt16(8)) { Array($0) }
        return bytes[..<8].allSatisfy { $0 == 0 } && Array(bytes[10..<12]) == flags
            && Array(bytes[16..<20]) == number
    }

    /// Whether `name` is that of a file that SQLite has beside the database `document`.
    package static func isDatabaseCompanion(_ name: [UInt8], of document: [UInt8]) -> Bool {
        companions.hasRow(for: name, of: document)
    }

    /// Whether `name` may be that of such a file beside any database.
    static func isDatabaseCompanion(_ name: [UInt8]) -> Bool {
        ["-journal", "-wal", "-shm"].contains { name.suffix($0.utf8.count).elementsEqual($0.utf8) }
    }
}

/// Names SQLite gives to the rollback journal, the write-ahead log and its index ("Temporary Files Used By SQLite",
/// sections 2.1 to 2.3).
private let companions = NameTable(["{D}-journal", "{D}-wal", "{D}-shm"])

private struct ClassRow: Sendable {
    let itemClass: ItemClass
    let pattern: NamePattern

    init(_ itemClass: ItemClass, _ pattern: String) {
        self.itemClass = itemClass
        self.pattern = NamePattern(pattern)
    }
}

/// The default classes by name; the first row that fits decides.
///
/// The endings are those of SQLite's own tools and most applications. A bare `-journal` is not enough, because people
/// give such names to their diaries.
private let classNames = NameTable([
    ClassRow(.database, "*.sqlite"), ClassRow(.database, "*.sqlite3"), ClassRow(.database, "*.db"),
    ClassRow(.database, "*.sqlite-journal"), ClassRow(.database, "*.sqlite3-journal"),
    ClassRow(.database, "*.db-journal"),
    ClassRow(.database, "*-wal"), ClassRow(.database, "*-shm"),
    // logrotate's `.N` and `dateext`, and the names of Python's rotating handlers for `app.log`.
    ClassRow(.log, "*.log"), ClassRow(.log, "*.log.{N}"), ClassRow(.log, "*.log-{N}"),
    ClassRow(.log, "*.log.{N}-{N}-{N}"),
]) { $0.pattern }
