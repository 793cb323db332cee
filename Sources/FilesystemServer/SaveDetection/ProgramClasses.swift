// SPDX-License-Identifier: Apache-2.0
package import Coordination
import Synchronization

/// The classes of programs, found by the programs' names. The tables are replaced when a configuration file has changed.
///
/// The name of a program is the text in `/proc/PID/comm` of its process: the last part of the path of the executable,
/// cut off after 15 bytes. The names of the process's other threads do not count.
package final class ProgramClasses: Sendable {
    /// The tables of one moment, in the order of ``ProgramTable/allCases``.
    private final class Tables: Sendable {
        private let tables: [NameTable<RuleRow>]

        init(_ rules: [ProgramRule]) {
            tables = ProgramTable.allCases.map { table in
                NameTable(rules.filter { $0.table == table }.map(RuleRow.init)) { $0.pattern }
            }
        }

        func holds(_ comm: [UInt8], in table: ProgramTable) -> Bool {
            tables[table.place].first(for: comm)?.belongs ?? false
        }
    }

    private let tables: Mutex<Tables>

    /// Makes the tables from the rules. The first rule that fits a name decides.
    package init(_ rules: [ProgramRule]) { tables = Mutex(Tables(rules)) }

    package func replace(by rules: [ProgramRule]) {
        let next = Tables(rules)
        tables.withLock { $0 = next }
    }

    /// Returns whether a program is in a table.
    package func holds(_ comm: [UInt8], in table: ProgramTable) -> Bool {
        tables.withLock { $0 }.holds(comm, in: table)
    }

    /// Returns the class of a program, which decides how its reads are treated.
    package func programClass(of comm: [UInt8]) -> ProgramClass {
        if holds(comm, in: .background) { return .background }
        return holds(comm, in: .watcher) ? .watcher : .ordinary
    }

    /// Returns whether a program replaces a file by unlinking it and creating it again.
    package func unlinksToCreate(_ comm: [UInt8]) -> Bool { holds(comm, in: .savesByUnlink) }

    /// Returns whether a program moves files between file systems, for example from `/tmp`, as mv does. If the target
    /// exists, the program unlinks it and creates it again.
    ///
    /// The program also unlinks the file that it has moved. If that file is a presented document, its presenters are
    /// asked when the program has ended.
    package func replacesFromElsewhere(_ comm: [UInt8]) -> Bool { holds(comm, in: .carriers) }

    /// Returns whether a program only removes files, and never makes new files with their names.
    package func removesFiles(_ comm: [UInt8]) -> Bool { holds(comm, in: .removers) }

    /// Returns whether a program is a shell. A shell opens files for the programs that it runs.
    package func isShell(_ comm: [UInt8]) -> Bool { holds(comm, in: .shells) }

    /// Returns whether a program starts or adopts processes that have nothing to do with each other.
    ///
    /// Such programs are recognised by their names. That a process adopts orphans (`PR_SET_CHILD_SUBREAPER`) cannot be
    /// seen from outside.
    package func adoptsOrphans(_ comm: [UInt8]) -> Bool { holds(comm, in: .adopters) }

    /// Returns whether a program reads or writes for the program that has started it, as shells and `cat` do (D223).
    package func isRelay(_ comm: [UInt8]) -> Bool { holds(comm, in: .relays) || isShell(comm) }

    /// Returns whether a program reads a document just before it saves, only to make a backup.
    package func readsToBackUp(_ comm: [UInt8]) -> Bool { holds(comm, in: .readsToBackUp) }
}

private struct RuleRow: Sendable {
    let pattern: NamePattern
    let belongs: Bool

    init(_ rule: ProgramRule) {
        pattern = NamePattern(bytes: rule.name)
        belongs = rule.belongs
    }
}

extension ProgramTable {
    /// The index of the table in ``ProgramTable/allCases``.
    fileprivate var place: Int {
        switch self {
        case .background: 0
        case .watcher: 1
        case .savesByUnlink: 2
        case .carriers: 3
        case .removers: 4
        case .shells: 5
        case .adopters: 6
        case .relays: 7
        case .readsToBackUp: 8
        }
    }
}
