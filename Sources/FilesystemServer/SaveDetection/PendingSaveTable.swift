// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The pending saves: the names that are missing now in the middle of a save.
///
///     open ──an item gets the name──▶ filled, as a save or as a change
///       ├──the saver gives the old file its name back──▶ rolled back
///       ╰──too long, the saver is gone, or the moved document is used──▶ expired
///
/// | transition | function |
/// |---|---|
/// | to open | ``open(_:)`` |
/// | to filled | ``resolveFill(_:in:by:isFile:)`` |
/// | to rolled back | ``resolveRollback(_:to:in:by:)`` |
/// | to expired | ``takeExpired(at:)``, ``takeExited(_:)``, ``resolveMove(_:)`` |
///
/// 1. A name has at most one open pending save. `names` has exactly the open pending saves, and `count` is their number.
/// 2. Each open pending save is in the group of its saver, at the index `head` or later. A group ends with its last open
///    pending save.
/// 3. `moves` has only open pending saves of moved documents.
///
/// The pending saves are grouped by saver, because one operation of a saver prolongs all of them. `git rm` of ten
/// thousand files must not examine ten thousand pending saves for each file.
package struct PendingSaveTable: Sendable {
    private struct Group: Sendable {
        /// The time of the saver's last operation on the mount.
        var last: Instant
        /// The saver's pending saves, the oldest first. Those before the index `head` have ended. Those that are not in
        /// `names` have ended as well.
        var pendingSaves: [PendingSave] = []
        var head = 0

        var idleEnd: Instant { last + SaveLimits.pendingIdle }
    }

    private var names: [NodeNumber: [[UInt8]: PendingSave]] = [:]
    private var groups: [SavingProcess: Group] = [:]
    /// The pending saves of moved documents, by the numbers of their files.
    private var moves: [NodeNumber: PendingSave] = [:]
    package private(set) var count = 0

    package init() {}

    package var isEmpty: Bool { count == 0 }

    /// Opens a pending save. Returns false if there are too many. Lookups of the name then do not wait.
    package mutating func open(_ pendingSave: PendingSave) -> Bool {
        _ = remove(pendingSave.name, in: pendingSave.directory)
        guard count < SaveLimits.mostPendingSaves else { return false }
        names[pendingSave.directory, default: [:]][pendingSave.name] = pendingSave
        if pendingSave.evidence == .move { moves[pendingSave.oldNode] = pendingSave }
        groups[pendingSave.saver, default: Group(last: pendingSave.opened)].pendingSaves.append(pendingSave)
        count += 1
        noteActivity(by: pendingSave.saver, at: pendingSave.opened)
        return true
    }

    /// Notes an operation of a saver on the mount. The saver's pending saves may then last longer.
    package mutating func noteActivity(by saver: SavingProcess, at now: Instant) {
        for key in groups.keys where key.isSameSave(as: saver) {
            guard let index = groups.index(forKey: key) else { continue }
            groups.values[index].last = max(groups.values[index].last, now)
        }
    }

    /// Returns the pending save of a name, for which lookups of the name must wait. Returns nil if the saving program
    /// itself asks: it sees that the name is missing.
    package func pendingSave(of name: [UInt8], in directory: NodeNumber, for saver: SavingProcess?)
        -> PendingSave?
    {
        guard let pendingSave = names[directory]?[name] else { return nil }
        if let saver, saver.isOneProgram(with: pendingSave.saver) { return nil }
        return pendingSave
    }

    /// Returns the pending saves of documents in a directory, the oldest first. Leaves out documents that no other
    /// program uses, and pending saves of the program that asks.
    package func pendingSaves(in directory: NodeNumber, for saver: SavingProcess?) -> [PendingSave] {
        guard let vacated = names[directory] else { return [] }
        return vacated.values
            .filter { pendingSave in
                pendingSave.audience == .users && !(saver?.isOneProgram(with: pendingSave.saver) ?? false)
            }
            .sorted(by: Self.isInOrder)
    }

    /// Returns whether a pending save is still open.
    package func isOpen(_ pendingSave: PendingSave) -> Bool {
        names[pendingSave.directory]?[pendingSave.name] == pendingSave
    }

    /// Ends the pending save of a name, because an item was created under the name, or was renamed or linked to the
    /// name.
    ///
    /// If the move or removal is the only evidence of a save, only a file can complete the save.
    package mutating func resolveFill(
        _ name: [UInt8], in directory: NodeNumber, by saver: SavingProcess?, isFile: Bool = true
    ) -> FillOutcome? {
        guard let pendingSave = remove(name, in: directory) else { return nil }
        let isSave = pendingSave.isSaved(by: saver) && (isFile || !pendingSave.evidence.isStepAlone)
        return isSave ? .save(pendingSave) : .change(pendingSave)
    }

    /// Ends the pending save of a name, if the saver gives the old file its name back.
    ///
    /// vim and Emacs do this after a CREATE that failed, within 0.7 ms and 6 ms. This must be called before
    /// ``resolveFill(_:in:by:isFile:)``.
    package mutating func resolveRollback(
        _ node: NodeNumber, to name: [UInt8], in directory: NodeNumber, by saver: SavingProcess?
    ) -> PendingSave? {
        guard let pendingSave = names[directory]?[name], pendingSave.oldNode == node,
            let saver, saver.isSameSave(as: pendingSave.saver)
        else { return nil }
        return remove(name, in: directory)
    }

    /// Ends the pending save of a moved document, because a program uses the document under its new name.
    package mutating func resolveMove(_ node: NodeNumber) -> PendingSave? {
        moves[node].flatMap { remove($0.name, in: $0.directory) }
    }

    /// Ends and returns the pending saves that have lasted too long, the oldest first.
    package mutating func takeExpired(at now: Instant) -> [PendingSave] {
        ended { _, group, pendingSave in group.idleEnd <= now || pendingSave.latestEnd <= now }
    }

    /// Ends and returns the pending saves of a process that has ended. Such a process can no longer make a file under
    /// the missing name.
    ///
    /// If the evidence is a question to a presenter, the pending save stays: the presenter may run several programs for
    /// one save.
    package mutating func takeExited(_ process: ProcessID) -> [PendingSave] {
        ended { saver, _, pendingSave in saver.process == process && pendingSave.evidence != .presenter }
    }

    /// The time at which ``takeExpired(at:)`` must be called next; nil if there are no pending saves.
    package var nextDeadline: Instant? {
        groups.values.map { group in
            group.pendingSaves[group.head...].filter(isOpen).map(\.latestEnd).reduce(group.idleEnd, min)
        }.min()
    }

    /// The processes with pending saves. The daemon must notice when one of them ends.
    package var savers: [SavingProcess] { Array(groups.keys) }
}

extension PendingSaveTable {
    /// Removes the pending saves for which `isOver` returns true, and returns them, the oldest first.
    private mutating func ended(where isOver: (SavingProcess, Group, PendingSave) -> Bool) -> [PendingSave] {
        var over: [PendingSave] = []
        for (saver, group) in groups {
            over += group.pendingSaves[group.head...].filter { isOver(saver, group, $0) && isOpen($0) }
        }
        for pendingSave in over { _ = remove(pendingSave.name, in: pendingSave.directory) }
        return over.sorted(by: Self.isInOrder)
    }

    private mutating func remove(_ name: [UInt8], in directory: NodeNumber) -> PendingSave? {
        guard count > 0, let pendingSave = names[directory]?.removeValue(forKey: name) else { return nil }
        if names[directory]?.isEmpty == true { names[directory] = nil }
        if moves[pendingSave.oldNode] == pendingSave { moves[pendingSave.oldNode] = nil }
        count -= 1
        trim(pendingSave.saver)
        return pendingSave
    }

    /// Moves a group's `head` to its oldest open pending save. Removes the group if it has none.
    private mutating func trim(_ saver: SavingProcess) {
        guard let index = groups.index(forKey: saver) else { return }
        var (pendingSaves, head) = (groups.values[index].pendingSaves, groups.values[index].head)
        groups.values[index].pendingSaves = []
        while head < pendingSaves.count, !isOpen(pendingSaves[head]) { head += 1 }
        guard head < pendingSaves.count else {
            groups[saver] = nil
            return
        }
        if head > pendingSaves.count / 2 {
            pendingSaves.removeFirst(head)
            head = 0
        }
        groups.values[index].pendingSaves = pendingSaves
        groups.values[index].head = head
    }

    /// Orders pending saves by age, and those of the same age by directory and name. Without this, the order would
    /// differ from run to run.
    private static func isInOrder(_ one: PendingSave, _ other: PendingSave) -> Bool {
        if one.opened != other.opened { return one.opened < other.opened }
        if one.directory != other.directory { return one.directory < other.directory }
        return one.name.lexicographicallyPrecedes(other.name)
    }
}
