// SPDX-License-Identifier: Apache-2.0
package import Coordination

// The classes of files by their names and first bytes.
extension ItemClass {
    /// Finds the class of a file with this name, for the case that no rule of the user fits the name.
    package init(of name: [UInt8], in place: HelperFileName.DirectoryKind = .ordinary) {
        if HelperFileName.isUnambiguous(name, in: place) {
            self = .private
        } else {
            self = classNames.first(for: name)?.itemClass ?? .document
        }
    }

    /// The number of bytes at the beginning of a file that show whether the file is a database.
    package static let databaseHeaderLength = 20

    /// Returns whether a file that begins with these bytes is a database of SQLite or LMDB. The file's name does not
    /// matter.
    ///
    /// The first 16 bytes of an SQLite database are a fixed text and a zero byte ("Database File Format", 1.3.1).
    package static func isDatabaseHeader(_ bytes: [UInt8]) -> Bool {
        bytes.starts(with: Array("SQLite format 3".utf8) + [0]) || isLMDBHeader(bytes)
    }

    /// Returns whether a file that begins with these bytes is an LMDB database, which has its locks in another file.
    ///
    /// The format is that of `MDB_page`, `P_META` and `MDB_MAGIC` in LMDB's `mdb.c`. Bytes 10 and 11 of page 0 have the
    /// flag of a meta page. The contents of the page begin with the magic number, in the machine's byte order.
    private static func isLMDBHeader(_ bytes: [UInt8]) -> Bool {
        guard bytes.count >= databaseHeaderLength else { return false }
        let number = withUnsafeBytes(of: UInt32(0xBEEF_C0DE)) { Array($0) }
        let flags = withUnsafeBytes(of: UInt16(8)) { Array($0) }
        return bytes[..<8].allSatisfy { $0 == 0 } && Array(bytes[10..<12]) == flags
            && Array(bytes[16..<20]) == number
    }

    /// Returns whether SQLite makes a file with this name beside the database `document`.
    package static func isDatabaseCompanion(_ name: [UInt8], of document: [UInt8]) -> Bool {
        companions.hasRow(for: name, of: document)
    }

    /// Returns whether SQLite may make a file with this name beside some database.
    static func isDatabaseCompanion(_ name: [UInt8]) -> Bool {
        ["-journal", "-wal", "-shm"].contains { name.suffix($0.utf8.count).elementsEqual($0.utf8) }
    }
}

/// The names that SQLite gives to the rollback journal, the write-ahead log and its index ("Temporary Files Used By
/// SQLite", sections 2.1 to 2.3).
private let companions = NameTable(["{D}-journal", "{D}-wal", "{D}-shm"])

private struct ClassRow: Sendable {
    let itemClass: ItemClass
    let pattern: NamePattern

    init(_ itemClass: ItemClass, _ pattern: String) {
        self.itemClass = itemClass
        self.pattern = NamePattern(pattern)
    }
}

/// The classes of files by their names, if no rule of the user fits. The first row that fits a name decides.
///
/// The rows for databases have the endings that SQLite's own tools and most applications use. The ending `-journal` is
/// not among them, because people also give such names to their diaries.
private let classNames = NameTable([
    ClassRow(.database, "*.sqlite"), ClassRow(.database, "*.sqlite3"), ClassRow(.database, "*.db"),
    ClassRow(.database, "*.sqlite-journal"), ClassRow(.database, "*.sqlite3-journal"),
    ClassRow(.database, "*.db-journal"),
    ClassRow(.database, "*-wal"), ClassRow(.database, "*-shm"),
    // The names of logs. When logrotate or Python's logging rotates a log, it adds a number or a date to the name.
    ClassRow(.log, "*.log"), ClassRow(.log, "*.log.{N}"), ClassRow(.log, "*.log-{N}"),
    ClassRow(.log, "*.log.{N}-{N}-{N}"),
]) { $0.pattern }
