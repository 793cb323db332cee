// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// What a program's name says about its accesses. It is made once for a mount, and does not change.
///
/// The name is what `/proc/PID/comm` of the process (not of the thread) holds: the last part of the path
/// it was started by, cut off after 15 bytes.
package struct ProgramClasses: Sendable {
    private let background, watchers, unlinkers, carriers, removers, shells, adopters: NameTable<RuleRow>

    /// Of several rules that fit a name the first one decides.
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

    /// Whether the program unlinks what it moves something from another file system over, as a file made in `/tmp`, and creates it
    /// again. What it moves there it unlinks as well: of a document that is put to those who show it when the program has ended.
    package func replacesFromElsewhere(_ comm: [UInt8]) -> Bool { carriers.holds(comm) }

    /// Whether the program removes files and puts nothing in their place.
    package func removesFiles(_ comm: [UInt8]) -> Bool { removers.holds(comm) }

    /// Whether the program opens files for whatever other programs it runs.
    package func isShell(_ comm: [UInt8]) -> Bool { shells.holds(comm) }

    /// Whether the program starts or takes in processes that have nothing to do with each other.
    ///
    /// A process that asked to be given the orphans below itself (`PR_SET_CHILD_SUBREAPER`) can see that of itself
    /// only, so those that do are known by their names.
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
