// SPDX-License-Identifier: Apache-2.0

/// A table of programs that are treated in the same way; the raw value is its name in a configuration file.
public enum ProgramTable: String, Hashable, Sendable, CaseIterable {
    /// Backup, sync and indexing programs.
    case background
    /// Compilers in watch mode, language servers, thumbnailers.
    case watcher
    /// Programs that replace a file by unlinking it and creating it again.
    case savesByUnlink = "saves-by-unlink"
    /// Programs that unlink what they move a file of another file system over.
    case carriers
    /// Programs that unlink files and put nothing in their place.
    case removers
    /// Programs that open files for the programs that they run.
    case shells
    /// Service managers, and what looks after containers: they take in processes that are unrelated.
    case adopters
}

/// One name of a table: which programs belong to it, or do not.
public struct ProgramRule: Hashable, Sendable {
    public let table: ProgramTable
    /// A program's name as `/proc/PID/comm` shows it, at most 15 bytes; `*` and `?` stand for others.
    public let name: [UInt8]
    /// False for a program that a table does not apply to, though another name fits it.
    public let belongs: Bool

    public init(_ table: ProgramTable, _ name: [UInt8], belongs: Bool = true) {
        self.table = table
        self.name = name
        self.belongs = belongs
    }
}
