// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The presented documents that programs moved a moment ago.
///
/// A move may be the first step of a save, whatever new name the document gets. The move was part of a save if the same
/// program soon makes a file under the former name. The moved file is then a backup.
package struct MovedDocuments: Sendable {
    package struct Entry: Hashable, Sendable {
        package let directory: NodeNumber
        package let name: [UInt8]
        /// The moved file, which had the name `name` before.
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

    /// Remembers a move. If there are too many, forgets the oldest move: that document then stays with the moved file.
    package mutating func add(_ entry: Entry) {
        entries.removeAll { $0.node == entry.node || Self.isName(entry.name, entry.directory, of: $0) }
        if entries.count >= SaveLimits.movedDocuments { entries.removeFirst() }
        entries.append(entry)
    }

    package func contains(_ node: NodeNumber) -> Bool { entries.contains { $0.node == node } }

    /// Returns whether a rename gives a moved file the name back that it had before the move.
    package func isReturn(of node: NodeNumber, to name: [UInt8], in directory: NodeNumber) -> Bool {
        entries.contains { $0.node == node && Self.isName(name, directory, of: $0) }
    }

    /// Notes an operation of a saver on the mount. The saver's moves are then remembered for longer.
    package mutating func noteActivity(by saver: SavingProcess, at now: Instant) {
        for index in entries.indices where entries[index].saver.isSameSave(as: saver) {
            entries[index].last = max(entries[index].last, now)
        }
    }

    /// Forgets the moves of a file, because a program uses the file under its new name: the document stays with the
    /// file. Returns whether a move was forgotten.
    ///
    /// `saver`: the process that uses the file, or nil. A move by the same program is not forgotten.
    package mutating func resolveMove(_ node: NodeNumber, for saver: SavingProcess?) -> Bool {
        let count = entries.count
        entries.removeAll { entry in
            entry.node == node && !(saver?.isOneProgram(with: entry.saver) ?? false)
        }
        return entries.count < count
    }

    /// Forgets the move from a name, because the name has an item again.
    ///
    /// Returns the move if the item is a file that the moving program has made soon after the move. The file is then
    /// the saved document.
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

    /// Forgets the moves that are too old. Also forgets the moves of the processes `gone`, which have ended.
    package mutating func expire(at now: Instant, gone: [ProcessID] = []) {
        entries.removeAll { $0.isOver(at: now) || gone.contains($0.saver.process) }
    }

    private static func isName(_ name: [UInt8], _ directory: NodeNumber, of entry: Entry) -> Bool {
        entry.directory == directory && entry.name == name
    }
}
