// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The names that are vacated now.
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
/// 1. A name has at most one open pending save. `names` has exactly the open ones, and `count` their number.
/// 2. Each open pending save is in the group of its saver, at `head` or later. A group ends with its last open one.
/// 3. `moves` has open pending saves of moved documents only.
///
/// Pending saves are grouped by saver, because one operation of a saver prolongs all of them. `git rm` of ten thousand
/// files must not examine ten thousand pending saves for each file.
package struct PendingSaveTable: Sendable {
    private struct Group: Sendable {
        /// The saver's last operation on the mount.
        var last: Instant
        /// Its pending saves, oldest first; those before `head` and those no longer in the table have ended.
        var pendingSaves: [PendingSave] = []
        var head = 0

        var idleEnd: Instant { last + SaveLimits.pendingIdle }
    }

    private var names: [NodeNumber: [[UInt8]: PendingSave]] = [:]
    private var groups: [SavingProcess: Group] = [:]
    /// The pending saves of documents that were moved, by their files.
    private var moves: [NodeNumber: PendingSave] = [:]
    package private(set) var count = 0

    package init() {}

    package var isEmpty: Bool { count == 0 }

    /// Opens a pending save; false if there are too many, and then the name is simply missing.
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

    /// Notes any operation of a saver on the mount, which prolongs its pending saves.
    package mutating func noteActivity(by saver: SavingProcess, at now: Instant) {
        for key in groups.keys where key.isSameSave(as: saver) {
            guard let index = groups.index(forKey: key) else { continue }
            groups.values[index].last = max(groups.values[index].last, now)
        }
    }

    /// The pending save that lookups of the name wait for; nil for its saver, which sees the name as missing.
    package func pendingSave(of name: [UInt8], in directory: NodeNumber, for saver: SavingProcess?)
        -> PendingSave?
    {
        guard let pendingSave = names[directory]?[name] else { return nil }
        if let saver, saver.isOneProgram(with: pendingSave.saver) { return nil }
        return pendingSave
    }

    /// The pending saves in a directory of documents that others use, the oldest first, without the saver's own.
    package func pendingSaves(in directory: NodeNumber, for saver: SavingProcess?) -> [PendingSave] {
        guard let vacated = names[directory] else { return [] }
        return vacated.values
            .filter { pendingSave in
                pendingSave.audience == .users && !(saver?.isOneProgram(with: pendingSave.saver) ?? false)
            }
            .sorted(by: Self.isInOrder)
    }

    /// Whether this pending save is still open.
    package func isOpen(_ pendingSave: PendingSave) -> Bool {
        names[pendingSave.directory]?[pendingSave.name] == pendingSave
    }

    /// Ends the pending save of a name at which an item was just created, renamed or linked.
    ///
    /// If the step alone is the evidence, only a file can be the next contents.
    package mutating func resolveFill(
        _ name: [UInt8], in directory: NodeNumber, by saver: SavingProcess?, isFile: Bool = true
    ) -> FillOutcome? {
        guard let pendingSave = remove(name, in: directory) else { return nil }
        let isSave = pendingSave.isSaved(by: saver) && (isFile || !pendingSave.evidence.isStepAlone)
        return isSave ? .save(pendingSave) : .change(pendingSave)
    }

    /// Ends the pending save if its saver gives the old file its name back, which undoes the step.
    ///
    /// vim and Emacs do so 0.7 ms and 6 ms after a CREATE that failed. Ask this before
    /// ``resolveFill(_:in:by:isFile:)``.
    package mutating func resolveRollback(
        _ node: NodeNumber, to name: [UInt8], in directory: NodeNumber, by saver: SavingProcess?
    ) -> PendingSave? {
        guard let pendingSave = names[directory]?[name], pendingSave.oldNode == node,
            let saver, saver.isSameSave(as: pendingSave.saver)
        else { return nil }
        return remove(name, in: directory)
    }

    /// Ends the pending save of a document that was moved, because it stays where it is now.
    package mutating func resolveMove(_ node: NodeNumber) -> PendingSave? {
        moves[node].flatMap { remove($0.name, in: $0.directory) }
    }

    /// Ends and returns the pending saves that have expired, oldest first.
    package mutating func takeExpired(at now: Instant) -> [PendingSave] {
        ended { _, group, pendingSave in group.idleEnd <= now || pendingSave.latestEnd <= now }
    }

    /// Ends and returns the pending saves of a process that is gone, because it cannot fill them.
    ///
    /// If a presenter was asked, its pending saves stay, because it may let one program after another save.
    package mutating func takeExited(_ process: ProcessID) -> [PendingSave] {
        ended { saver, _, pendingSave in saver.process == process && pendingSave.evidence != .presenter }
    }

    /// When ``takeExpired(at:)`` must be called next.
    package var nextDeadline: Instant? {
        groups.values.map { group in
            group.pendingSaves[group.head...].filter(isOpen).map(\.latestEnd).reduce(group.idleEnd, min)
        }.min()
    }

    /// The savers with pending saves, which must be watched for their exit.
    package var savers: [SavingProcess] { Array(groups.keys) }
}

extension PendingSaveTable {
    /// Removes the pending saves that are over, and returns them in order.
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

    /// Makes a group's oldest pending save an open one, and drops a group without any.
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

    /// By age, then by place, so that the order never depends on hashing.
    private static func isInOrder(_ one: PendingSave, _ other: PendingSave) -> Bool {
        if one.opened != other.opened { return one.opened < other.opened }
        if one.directory != other.directory { return one.directory < other.directory }
        return one.name.lexicographicallyPrecedes(other.name)
    }
}
