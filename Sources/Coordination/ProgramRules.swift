// SPDX-License-Identifier: Apache-2.0

/// A table of programs that are treated the same; the raw value is its name in a configuration file.
public enum ProgramTable: String, Hashable, Sendable, CaseIterable {
    /// Backup, sync and indexing programs.
    case background
    /// Compilers in watch mode, language servers, thumbnailers.
    case watcher
    /// Programs that replace a file by unlinking it and creating it again.
    case savesByUnlink = "saves-by-unlink"
    /// Programs that move a file from another file system and unlink the file that it replaces.
    case carriers
    /// Programs that unlink files without a replacement.
    case removers
    /// Programs that open files for the programs that they run.
    case shells
    /// Service managers and container managers; they adopt unrelated processes.
    case adopters
}

/// A rule of a table: whether programs of a name belong to it.
public struct ProgramRule: Hashable, Sendable {
    public let table: ProgramTable
    /// A program's name as in `/proc/PID/comm`, at most 15 bytes; `*` and `?` are wildcards.
    public let name: [UInt8]
    /// False for a program that does not belong to the table, though another rule's name matches it.
    public let belongs: Bool

    public init(_ table: ProgramTable, _ name: [UInt8], belongs: Bool = true) {
        self.table = table
        self.name = name
        self.belongs = belongs
    }
}
