// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The names that are vacated just now.
///
/// Windows are grouped by actor, because one operation of an actor prolongs all of its windows: `git rm`
/// of ten thousand files must not look at ten thousand windows for each of them.
package struct PendingSaveTable: Sendable {
    private struct Group: Sendable {
        /// The actor's last operation on the mount.
        var last: Instant
        /// Its windows, oldest first; those before `head` and those no longer in the table have ended.
        var pendingSaves: [PendingSave] = []
        var head = 0

        var idleEnd: Instant { last + SaveLimits.pendingIdle }
    }

    private var names: [NodeNumber: [[UInt8]: PendingSave]] = [:]
    private var groups: [SavingProcess: Group] = [:]
    /// The windows of documents that were moved, by their files.
    private var moves: [NodeNumber: PendingSave] = [:]
    package private(set) var count = 0

    package init() {}

    package var isEmpty: Bool { count == 0 }

    /// Opens a window; false if there are too many, and then the step is what it looks like.
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

    /// Tells of any operation of an actor on the mount, which keeps its windows open a while longer.
    package mutating func noteActivity(by saver: SavingProcess, at now: Instant) {
        for key in groups.keys where key.isSameSave(as: saver) {
            guard let index = groups.index(forKey: key) else { continue }
            groups.values[index].last = max(groups.values[index].last, now)
        }
    }

    /// The window others wait for when they look the name up; nil for its actor, who sees the truth.
    package func pendingSave(of name: [UInt8], in directory: NodeNumber, for saver: SavingProcess?)
        -> PendingSave?
    {
        guard let pendingSave = names[directory]?[name] else { return nil }
        if let saver, saver.isOneProgram(with: pendingSave.saver) { return nil }
        return pendingSave
    }

    /// The windows of a directory in which documents are missing that others use, the oldest first; none of the actor's own.
    package func pendingSaves(in directory: NodeNumber, for saver: SavingProcess?) -> [PendingSave] {
        guard let vacated = names[directory] else { return [] }
        return vacated.values
            .filter { pendingSave in
                pendingSave.audience == .users && !(saver?.isOneProgram(with: pendingSave.saver) ?? false)
            }
            .sorted(by: Self.isInOrder)
    }

    /// Whether a window is still open, and is that one.
    package func isOpen(_ pendingSave: PendingSave) -> Bool {
        names[pendingSave.directory]?[pendingSave.name] == pendingSave
    }

    /// Ends the window of a name that something was just created at, renamed or linked to.
    ///
    /// Where only the step speaks for a save, nothing but a file can be the next contents.
    package mutating func resolveFill(
        _ name: [UInt8], in directory: NodeNumber, by saver: SavingProcess?, isFile: Bool = true
    ) -> FillOutcome? {
        guard let pendingSave = remove(name, in: directory) else { return nil }
        let isSave = pendingSave.isSaved(by: saver) && (isFile || !pendingSave.evidence.isStepAlone)
        return isSave ? .save(pendingSave) : .change(pendingSave)
    }

    /// Ends the window if its actor gives the old file its name back, after which nothing has happened.
    ///
    /// vim and Emacs do so 0.7 ms and 6 ms after a CREATE that failed. Ask this before `fills`.
    package mutating func resolveRollback(
        _ node: NodeNumber, to name: [UInt8], in directory: NodeNumber, by saver: SavingProcess?
    ) -> PendingSave? {
        guard let pendingSave = names[directory]?[name], pendingSave.oldNode == node,
            let saver, saver.isSameSave(as: pendingSave.saver)
        else { return nil }
        return remove(name, in: directory)
    }

    /// Ends the window of a document that was moved, because it stays where it is now.
    package mutating func resolveMove(_ node: NodeNumber) -> PendingSave? {
        moves[node].flatMap { remove($0.name, in: $0.directory) }
    }

    /// Ends and returns the windows whose time is over, oldest first.
    package mutating func takeExpired(at now: Instant) -> [PendingSave] {
        ended { _, group, pendingSave in group.idleEnd <= now || pendingSave.latestEnd <= now }
    }

    /// Ends and returns the windows of a process that is gone: nobody is left to fill them.
    ///
    /// But whoever shows the document and was asked is left, and may have one program after another save for
    /// it.
    package mutating func takeExited(_ process: ProcessID) -> [PendingSave] {
        ended { saver, _, pendingSave in saver.process == process && pendingSave.evidence != .presenter }
    }

    /// When `takeExpired` must be asked next.
    package var nextDeadline: Instant? {
        groups.values.map { group in
            group.pendingSaves[group.head...].filter(isOpen).map(\.latestEnd).reduce(group.idleEnd, min)
        }.min()
    }

    /// The actors with open windows, whose end somebody has to notice.
    package var savers: [SavingProcess] { Array(groups.keys) }
}

extension PendingSaveTable {
    /// Removes the windows that are over, and returns them in order.
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

    /// Keeps a group's oldest window an open one, and drops a group without any.
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
