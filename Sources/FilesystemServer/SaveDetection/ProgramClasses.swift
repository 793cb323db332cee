// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The properties of programs by their names; made once for a mount, and constant.
///
/// The name is that in `/proc/PID/comm` of the process (not of the thread): the last part of the path of its
/// executable, cut off after 15 bytes.
package struct ProgramClasses: Sendable {
    private let background, watchers, unlinkers, carriers, removers, shells, adopters: NameTable<RuleRow>

    /// Creates the tables; the first rule that fits a name decides.
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

    /// How the program's reads are treated.
    package func programClass(of comm: [UInt8]) -> ProgramClass {
        if background.holds(comm) { return .background }
        return watchers.holds(comm) ? .watcher : .ordinary
    }

    /// Whether the program replaces a file by unlinking it and creating it again.
    package func unlinksToCreate(_ comm: [UInt8]) -> Bool { unlinkers.holds(comm) }

    /// Whether the program moves files between file systems, such as from `/tmp`: it unlinks the target and creates it
    /// again.
    ///
    /// It also unlinks the source. Presenters of such a document are asked when the program has ended.
    package func replacesFromElsewhere(_ comm: [UInt8]) -> Bool { carriers.holds(comm) }

    /// Whether the program removes files and puts nothing in their place.
    package func removesFiles(_ comm: [UInt8]) -> Bool { removers.holds(comm) }

    /// Whether the program opens files for any other programs that it runs.
    package func isShell(_ comm: [UInt8]) -> Bool { shells.holds(comm) }

    /// Whether the program starts or adopts unrelated processes.
    ///
    /// Only the process itself can see that it asked for orphans (`PR_SET_CHILD_SUBREAPER`), so such programs are known
    /// by their names.
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
