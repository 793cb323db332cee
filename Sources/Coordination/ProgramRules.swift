// SPDX-License-Identifier: Apache-2.0

/// A table of programs that Truce treats in the same manner; the raw value is the table's name in a configuration
/// file.
public enum ProgramTable: String, Hashable, Sendable, CaseIterable {
    /// Backup, sync and indexing programs.
    case background
    /// Compilers in watch mode, language servers, thumbnailers.
    case watcher
    /// Programs that save a document by unlinking its file and creating a new file with the name.
    case savesByUnlink = "saves-by-unlink"
    /// Programs that move a file from another file system into the mount: they unlink the file that has the new name,
    /// and then copy the file.
    case carriers
    /// Programs that unlink files and create no replacement.
    case removers
    /// Shells: they open files for the programs that they run.
    case shells
    /// Service managers and container managers. Their children are programs that have nothing to do with each other.
    case adopters
    /// Programs that read or write files for the program that has started them, such as `cat`.
    case relays
    /// Programs that read a document just before they save it, only to make a backup.
    case readsToBackUp = "reads-to-back-up"
}

/// A rule of a table: whether programs with a certain name are in the table.
public struct ProgramRule: Hashable, Sendable {
    public let table: ProgramTable
    /// The name of a program, as in `/proc/PID/comm`: at most 15 bytes. `*` and `?` are wildcards.
    public let name: [UInt8]
    /// Whether programs with this name are in the table. A rule with `false` excludes a program that the pattern of
    /// another rule includes.
    public let belongs: Bool

    public init(_ table: ProgramTable, _ name: [UInt8], belongs: Bool = true) {
        self.table = table
        self.name = name
        self.belongs = belongs
    }
}
