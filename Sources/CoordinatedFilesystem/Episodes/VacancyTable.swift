// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The names that are vacated just now.
///
/// Windows are grouped by actor, because one operation of an actor prolongs all of its windows: `git rm`
/// of ten thousand files must not look at ten thousand windows for each of them.
package struct VacancyTable: Sendable {
    private struct Group: Sendable {
        /// The actor's last operation on the mount.
        var last: Instant
        /// Its windows, oldest first; those before `head` and those no longer in the table have ended.
        var windows: [Vacancy] = []
        var head = 0

        var idleEnd: Instant { last + EpisodeLimits.vacancyIdle }
    }

    private var names: [NodeNumber: [[UInt8]: Vacancy]] = [:]
    private var groups: [Actor: Group] = [:]
    /// The windows of documents that were moved, by their files.
    private var moves: [NodeNumber: Vacancy] = [:]
    package private(set) var count = 0

    package init() {}

    package var isEmpty: Bool { count == 0 }

    /// Opens a window; false if there are too many, and then the step is what it looks like.
    package mutating func open(_ vacancy: Vacancy) -> Bool {
        _ = remove(vacancy.name, in: vacancy.directory)
        guard count < EpisodeLimits.openVacancies else { return false }
        names[vacancy.directory, default: [:]][vacancy.name] = vacancy
        if vacancy.evidence == .move { moves[vacancy.oldNode] = vacancy }
        groups[vacancy.actor, default: Group(last: vacancy.opened)].windows.append(vacancy)
        count += 1
        touched(by: vacancy.actor, at: vacancy.opened)
        return true
    }

    /// Tells of any operation of an actor on the mount, which keeps its windows open a while longer.
    package mutating func touched(by actor: Actor, at now: Instant) {
        for key in groups.keys where key.isSame(as: actor) {
            guard let index = groups.index(forKey: key) else { continue }
            groups.values[index].last = max(groups.values[index].last, now)
        }
    }

    /// The window others wait for when they look the name up; nil for its actor, who sees the truth.
    package func vacancy(of name: [UInt8], in directory: NodeNumber, for actor: Actor?) -> Vacancy? {
        guard let vacancy = names[directory]?[name] else { return nil }
        if let actor, actor.isOneProgram(with: vacancy.actor) { return nil }
        return vacancy
    }

    /// The windows of a directory in which documents are missing that others use, the oldest first; none of the actor's own.
    package func vacancies(in directory: NodeNumber, for actor: Actor?) -> [Vacancy] {
        guard let vacated = names[directory] else { return [] }
        return vacated.values
            .filter { vacancy in
                vacancy.audience == .users && !(actor?.isOneProgram(with: vacancy.actor) ?? false)
            }
            .sorted(by: Self.isInOrder)
    }

    /// Whether a window is still open, and is that one.
    package func isOpen(_ vacancy: Vacancy) -> Bool {
        names[vacancy.directory]?[vacancy.name] == vacancy
    }

    /// Ends the window of a name that something was just created at, renamed or linked to.
    ///
    /// Where only the step speaks for a save, nothing but a file can be the next contents.
    package mutating func fills(
        _ name: [UInt8], in directory: NodeNumber, by actor: Actor?, isFile: Bool = true
    ) -> Fill? {
        guard let vacancy = remove(name, in: directory) else { return nil }
        let isSave = vacancy.isSaved(by: actor) && (isFile || !vacancy.evidence.isStepAlone)
        return isSave ? .save(vacancy) : .change(vacancy)
    }

    /// Ends the window if its actor gives the old file its name back, after which nothing has happened.
    ///
    /// vim and Emacs do so 0.7 ms and 6 ms after a CREATE that failed. Ask this before `fills`.
    package mutating func rollsBack(
        _ node: NodeNumber, to name: [UInt8], in directory: NodeNumber, by actor: Actor?
    ) -> Vacancy? {
        guard let vacancy = names[directory]?[name], vacancy.oldNode == node,
            let actor, actor.isSame(as: vacancy.actor)
        else { return nil }
        return remove(name, in: directory)
    }

    /// Ends the window of a document that was moved, because it stays where it is now.
    package mutating func stays(_ node: NodeNumber) -> Vacancy? {
        moves[node].flatMap { remove($0.name, in: $0.directory) }
    }

    /// Ends and returns the windows whose time is over, oldest first.
    package mutating func expired(at now: Instant) -> [Vacancy] {
        ended { _, group, vacancy in group.idleEnd <= now || vacancy.latestEnd <= now }
    }

    /// Ends and returns the windows of a process that is gone: nobody is left to fill them.
    ///
    /// But whoever shows the document and was asked is left, and may have one program after another save for
    /// it.
    package mutating func actorExited(_ process: ProcessID) -> [Vacancy] {
        ended { actor, _, vacancy in actor.process == process && vacancy.evidence != .presenter }
    }

    /// When `expired` must be asked next.
    package var nextDeadline: Instant? {
        groups.values.map { group in
            group.windows[group.head...].filter(isOpen).map(\.latestEnd).reduce(group.idleEnd, min)
        }.min()
    }

    /// The actors with open windows, whose end somebody has to notice.
    package var actors: [Actor] { Array(groups.keys) }
}

extension VacancyTable {
    /// Removes the windows that are over, and returns them in order.
    private mutating func ended(where isOver: (Actor, Group, Vacancy) -> Bool) -> [Vacancy] {
        var over: [Vacancy] = []
        for (actor, group) in groups {
            over += group.windows[group.head...].filter { isOver(actor, group, $0) && isOpen($0) }
        }
        for vacancy in over { _ = remove(vacancy.name, in: vacancy.directory) }
        return over.sorted(by: Self.isInOrder)
    }

    private mutating func remove(_ name: [UInt8], in directory: NodeNumber) -> Vacancy? {
        guard count > 0, let vacancy = names[directory]?.removeValue(forKey: name) else { return nil }
        if names[directory]?.isEmpty == true { names[directory] = nil }
        if moves[vacancy.oldNode] == vacancy { moves[vacancy.oldNode] = nil }
        count -= 1
        trim(vacancy.actor)
        return vacancy
    }

    /// Keeps a group's oldest window an open one, and drops a group without any.
    private mutating func trim(_ actor: Actor) {
        guard let index = groups.index(forKey: actor) else { return }
        var (windows, head) = (groups.values[index].windows, groups.values[index].head)
        groups.values[index].windows = []
        while head < windows.count, !isOpen(windows[head]) { head += 1 }
        guard head < windows.count else {
            groups[actor] = nil
            return
        }
        if head > windows.count / 2 {
            windows.removeFirst(head)
            head = 0
        }
        groups.values[index].windows = windows
        groups.values[index].head = head
    }

    /// By age, then by place, so that the order never depends on hashing.
    private static func isInOrder(_ one: Vacancy, _ other: Vacancy) -> Bool {
        if one.opened != other.opened { return one.opened < other.opened }
        if one.directory != other.directory { return one.directory < other.directory }
        return one.name.lexicographicallyPrecedes(other.name)
    }
}
