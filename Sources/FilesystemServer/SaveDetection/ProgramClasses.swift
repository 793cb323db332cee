// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The classes of programs by their names. The tables are made once for a mount and do not change.
///
/// The name of a program is that in `/proc/PID/comm` of its process, not of a thread. That is the last part of the path
/// of the executable, cut off after 15 bytes.
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

    /// Returns whether a program replaces a file by unlinking it and creating it again.
    package func unlinksToCreate(_ comm: [UInt8]) -> Bool { unlinkers.holds(comm) }

    /// Returns whether a program moves files between file systems, for example from `/tmp`. It unlinks the target and
    /// creates it again.
    ///
    /// Such a program also unlinks the source. If the source is a presented document, its presenters are asked when the
    /// program has ended.
    package func replacesFromElsewhere(_ comm: [UInt8]) -> Bool { carriers.holds(comm) }

    /// Returns whether a program only removes files, and makes no others in their place.
    package func removesFiles(_ comm: [UInt8]) -> Bool { removers.holds(comm) }

    /// Returns whether a program is a shell, which opens files for other programs that it runs.
    package func isShell(_ comm: [UInt8]) -> Bool { shells.holds(comm) }

    /// Returns whether a program starts or adopts unrelated processes.
    ///
    /// Such programs are known by their names. Only the process itself can see that it adopts orphans
    /// (`PR_SET_CHILD_SUBREAPER`).
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
