// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The classes of programs, found by the programs' names. The tables are made when the mount is made, and do not
/// change.
///
/// The name of a program is the text in `/proc/PID/comm` of its process: the last part of the path of the executable,
/// cut off after 15 bytes. The names of the process's other threads do not count.
package struct ProgramClasses: Sendable {
    private let background, watchers, unlinkers, carriers, removers, shells, adopters: NameTable<RuleRow>

    /// Makes the tables from the rules. The first rule that fits a name decides.
    package init(_ rules: [ProgramRule]) {
        let table = { (table: ProgramTable) in
            NameTable(rules.filter { $0.table == table }.map(RuleRow.init)) { $0.pattern }
        }
        background = table(.background)
        watchers = table(.watcher)
        unlinkers = table(.savesByUnlink)
        carriers = table(.carriers)
        removers = table(.removers)
        shells = table(.shells)
        adopters = table(.adopters)
    }

    /// Returns the class of a program, which decides how its reads are treated.
    package func programClass(of comm: [UInt8]) -> ProgramClass {
        if background.holds(comm) { return .background }
        return watchers.holds(comm) ? .watcher : .ordinary
    }

    /// Returns whether a program is in a table.
    package func holds(_ comm: [UInt8], in table: ProgramTable) -> Bool {
        switch table {
        case .background: background.holds(comm)
        case .watcher: watchers.holds(comm)
        case .savesByUnlink: unlinkers.holds(comm)
        case .carriers: carriers.holds(comm)
        case .removers: removers.holds(comm)
        case .shells: shells.holds(comm)
        case .adopters: adopters.holds(comm)
        }
    }

    /// Returns whether a program replaces a file by unlinking it and creating it again.
    package func unlinksToCreate(_ comm: [UInt8]) -> Bool { unlinkers.holds(comm) }

    /// Returns whether a program moves files between file systems, for example from `/tmp`, as mv does. If the target
    /// exists, the program unlinks it and creates it again.
    ///
    /// The program also unlinks the file that it has moved. If that file is a presented document, its presenters are
    /// asked when the program has ended.
    package func replacesFromElsewhere(_ comm: [UInt8]) -> Bool { carriers.holds(comm) }

    /// Returns whether a program only removes files, and never makes new files with their names.
    package func removesFiles(_ comm: [UInt8]) -> Bool { removers.holds(comm) }

    /// Returns whether a program is a shell. A shell opens files for the programs that it runs.
    package func isShell(_ comm: [UInt8]) -> Bool { shells.holds(comm) }

    /// Returns whether a program starts or adopts processes that have nothing to do with each other.
    ///
    /// Such programs are recognised by their names. That a process adopts orphans (`PR_SET_CHILD_SUBREAPER`) cannot be
    /// seen from outside.
    package func adoptsOrphans(_ comm: [UInt8]) -> Bool { adopters.holds(comm) }
}

private struct RuleRow: Sendable {
    let pattern: NamePattern
    let belongs: Bool

    init(_ rule: ProgramRule) {
        pattern = NamePattern(bytes: rule.name)
        belongs = rule.belongs
    }
}

extension NameTable<RuleRow> {
    fileprivate func holds(_ comm: [UInt8]) -> Bool { first(for: comm)?.belongs ?? false }
}
