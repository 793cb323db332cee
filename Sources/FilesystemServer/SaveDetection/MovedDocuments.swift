// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The presented documents that programs moved a moment ago.
///
/// A move may be the first step of a save, whatever the document is called now. It was a save if the same program puts
/// a file under the former name soon after its last step. The moved file is the backup then.
package struct MovedDocuments: Sendable {
    package struct Entry: Hashable, Sendable {
        package let directory: NodeNumber
        package let name: [UInt8]
        /// The file that had the name.
        package let node: NodeNumber
        package let saver: SavingProcess
        package let moved: Instant
        /// The file's stamp at that moment; nil if it could not be read.
        package let contents: Stamp?
        /// The last operation of the saver on the mount.
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

    /// The oldest first.
    private var entries: [Entry] = []

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }
    package var count: Int { entries.count }
    package var savers: [SavingProcess] { entries.map(\.saver) }

    /// Remembers a move. If too many are remembered, the oldest is forgotten and stays a move.
    package mutating func add(_ entry: Entry) {
        entries.removeAll { $0.node == entry.node || Self.isName(entry.name, entry.directory, of: $0) }
        if entries.count >= SaveLimits.movedDocuments { entries.removeFirst() }
        entries.append(entry)
    }

    package func contains(_ node: NodeNumber) -> Bool { entries.contains { $0.node == node } }

    /// Whether a file goes back to its former name.
    package func isReturn(of node: NodeNumber, to name: [UInt8], in directory: NodeNumber) -> Bool {
        entries.contains { $0.node == node && Self.isName(name, directory, of: $0) }
    }

    /// Notes any operation of a saver on the mount.
    package mutating func noteActivity(by saver: SavingProcess, at now: Instant) {
        for index in entries.indices where entries[index].saver.isSameSave(as: saver) {
            entries[index].last = max(entries[index].last, now)
        }
    }

    /// The document stays where it is now. `saver` is nil if any program's use decides that.
    package mutating func resolveMove(_ node: NodeNumber, for saver: SavingProcess?) -> Bool {
        let count = entries.count
        entries.removeAll { entry in
            entry.node == node && !(saver?.isOneProgram(with: entry.saver) ?? false)
        }
        return entries.count < count
    }

    /// A name has an item again. Returns the document that this item saves, if it is a file of the program that moved
    /// it.
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

    /// Forgets expired moves, and those of processes that are gone.
    package mutating func expire(at now: Instant, gone: [ProcessID] = []) {
        entries.removeAll { $0.isOver(at: now) || gone.contains($0.saver.process) }
    }

    private static func isName(_ name: [UInt8], _ directory: NodeNumber, of entry: Entry) -> Bool {
        entry.directory == directory && entry.name == name
    }
}
