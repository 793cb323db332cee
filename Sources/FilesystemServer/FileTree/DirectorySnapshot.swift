// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The names of a directory at the time when it was opened.
///
/// readdir(3) may return a directory as it was at opendir(3). Listings of a directory with presented documents use this:
/// otherwise a save that begins between OPENDIR and READDIR would hide a document's name.
final class DirectorySnapshot: Sendable {
    private struct Entry: Sendable {
        let name: NameBytes
        let inode: UInt64
        let type: UInt8
        /// The offset of the entry after it.
        let next: Int
    }

    /// The most names held for one listing. A larger directory is read when READDIR comes.
    private static let mostNames = 1 << 15

    /// The most names held for all listings together: some 16 MiB.
    private static let mostOfAll = 1 << 18
    private static let kept = Atomic<Int>(0)

    private let entries: [Entry]

    /// Nil if the directory has too many names, or all listings together hold too many.
    init?(reading stream: inout DirectoryStream) throws(Errno) {
        var entries: [Entry] = []
        try stream.forEach(from: 0) { name, inode, type, next in
            entries.append(Entry(name: name.copy(), inode: inode, type: type, next: next))
            return entries.count <= Self.mostNames
        }
        let count = entries.count
        guard count <= Self.mostNames, Self.kept.load(ordering: .relaxed) + count <= Self.mostOfAll else {
            return nil
        }
        Self.kept.add(count, ordering: .relaxed)
        self.entries = entries
    }

    deinit { Self.kept.subtract(entries.count, ordering: .relaxed) }

    /// Whether no name comes after an offset.
    func ends(at offset: Int) -> Bool { entries.last.map { $0.next == offset } ?? true }

    /// Passes on the entries from an offset on, as a `DirectoryStream` does. Returns false if no entry ends there.
    func forEach(from offset: Int, _ body: (borrowing FileName, UInt64, UInt8, Int) -> Bool) -> Bool {
        var first = 0
        if offset != 0 {
            guard let before = entries.firstIndex(where: { $0.next == offset }) else { return false }
            first = before + 1
        }
        for entry in entries[first...] {
            let isAccepted = entry.name.withName { body($0, entry.inode, entry.type, entry.next) }
            guard isAccepted else { break }
        }
        return true
    }
}
