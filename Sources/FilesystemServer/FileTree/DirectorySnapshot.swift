// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The names in a directory at the time when a program opened the directory.
///
/// The standard allows readdir(3) to return the names that the directory had at opendir(3). For a directory with
/// presented documents, the daemon returns these names. If the daemon read the names only at READDIR, a save that
/// begins after OPENDIR would hide a document's name.
final class DirectorySnapshot: Sendable {
    private struct Entry: Sendable {
        let name: NameBytes
        let inode: UInt64
        let type: UInt8
        /// The offset at which the next entry begins.
        let next: Int
    }

    /// The most names that one snapshot may have. For a larger directory there is no snapshot, and the daemon reads the names
    /// at READDIR.
    private static let mostNames = 1 << 15

    /// The most names that all snapshots together may have; they take about 16 MiB.
    private static let mostOfAll = 1 << 18
    private static let kept = Atomic<Int>(0)

    private let entries: [Entry]

    /// Reads all names. Returns nil if the directory, or all snapshots together, have too many names.
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

    /// Whether no entry comes after the offset.
    func ends(at offset: Int) -> Bool { entries.last.map { $0.next == offset } ?? true }

    /// Calls the closure for each entry from the offset on, with the same values as `DirectoryStream`. Returns false if no
    /// entry ends at the offset.
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
