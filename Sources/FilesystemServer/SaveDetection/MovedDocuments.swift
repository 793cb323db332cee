// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The presented documents that programs moved a moment ago.
///
/// A move may be the first step of a save, whatever the document's new name is. It was a save if the same program makes a
/// file under the former name soon after its last operation. Then the moved file is a backup.
package struct MovedDocuments: Sendable {
    package struct Entry: Hashable, Sendable {
        package let directory: NodeNumber
        package let name: [UInt8]
        /// The file that had the name.
        package let node: NodeNumber
        package let saver: SavingProcess
        package let moved: Instant
        /// The file's stamp at the move; nil if the stamp could not be read.
        package let contents: Stamp?
        /// The time of the saver's last operation on the mount.
        fileprivate var last: Instant

        package init(
            _ name: [UInt8], in directory: NodeNumber, of node: NodeNumber, by saver: SavingProcess,
            at moved: Instant,
            contents: Stamp? = nil
        ) {
            (self.name, self.directory, self.node) = (name, directory, node)
            (self.saver, self.moved, self.contents) = (saver, moved, contents)
            last = moved
        }

        fileprivate func isOver(at now: Instant) -> Bool {
            last + SaveLimits.pendingIdle <= now || moved + SaveLimits.pendingLongest <= now
        }
    }

    /// The moves, the oldest first.
    private var entries: [Entry] = []

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }
    package var count: Int { entries.count }
    package var savers: [SavingProcess] { entries.map(\.saver) }

    /// Remembers a move. If there are too many, the oldest move is forgotten: its document stays under the new name.
    package mutating func add(_ entry: Entry) {
        entries.removeAll { $0.node == entry.node || Self.isName(entry.name, entry.directory, of: $0) }
        if entries.count >= SaveLimits.movedDocuments { entries.removeFirst() }
        entries.append(entry)
    }

    package func contains(_ node: NodeNumber) -> Bool { entries.contains { $0.node == node } }

    /// Returns whether a file goes back to the name that it had before its move.
    package func isReturn(of node: NodeNumber, to name: [UInt8], in directory: NodeNumber) -> Bool {
        entries.contains { $0.node == node && Self.isName(name, directory, of: $0) }
    }

    /// Notes an operation of a saver on the mount, which prolongs the time of the saver's moves.
    package mutating func noteActivity(by saver: SavingProcess, at now: Instant) {
        for index in entries.indices where entries[index].saver.isSameSave(as: saver) {
            entries[index].last = max(entries[index].last, now)
        }
    }

    /// Forgets the moves of a file, because it is used under its new name: the document stays there. Returns whether
    /// there was a move.
    ///
    /// `saver`: the process that uses the file, or nil. If the process is the program that moved the file, the move is
    /// not forgotten.
    package mutating func resolveMove(_ node: NodeNumber, for saver: SavingProcess?) -> Bool {
        let count = entries.count
        entries.removeAll { entry in
            entry.node == node && !(saver?.isOneProgram(with: entry.saver) ?? false)
        }
        return entries.count < count
    }

    /// Forgets the move from a name, because the name has an item again.
    ///
    /// Returns the move if the item is a file of the program that made the move. The item is then the saved document.
    package mutating func resolveFill(
        _ name: [UInt8], in directory: NodeNumber, by saver: SavingProcess?, isFile: Bool, at now: Instant
    ) -> Entry? {
        guard let index = entries.firstIndex(where: { Self.isName(name, directory, of: $0) }) else {
            return nil
        }
        let entry = entries.remove(at: index)
        guard isFile, let saver, saver.isOneProgram(with: entry.saver), !entry.isOver(at: now) else {
            return nil
        }
        return entry
    }

    /// Forgets the moves that are too old, and the moves of processes that have ended.
    package mutating func expire(at now: Instant, gone: [ProcessID] = []) {
        entries.removeAll { $0.isOver(at: now) || gone.contains($0.saver.process) }
    }

    private static func isName(_ name: [UInt8], _ directory: NodeNumber, of entry: Entry) -> Bool {
        entry.directory == directory && entry.name == name
    }
}
