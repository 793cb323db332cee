// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// The names of a directory as they were when it was opened.
///
/// readdir(3) may show a directory as it was at opendir(3). A listing of a directory in which programs present documents
/// does: a save that begins between OPENDIR and READDIR would otherwise take a document's name out of it.
struct DirectorySnapshot: Sendable {
    private struct Entry: Sendable {
        let name: NameBytes
        let inode: UInt64
        let type: UInt8
        /// The offset of the entry after it.
        let next: Int
    }

    /// How many names are kept for one listing; a larger directory is read as it is when READDIR comes.
    private static let mostNames = 1 << 15

    private var entries: [Entry] = []

    /// Nil if the directory has too many names.
    init?(reading stream: inout DirectoryStream) throws(Errno) {
        var entries: [Entry] = []
        try stream.forEach(from: 0) { name, inode, type, next in
            entries.append(Entry(name: name.copy(), inode: inode, type: type, next: next))
            return entries.count <= Self.mostNames
        }
        guard entries.count <= Self.mostNames else { return nil }
        self.entries = entries
    }

    /// Hands over the entries from an offset on, as a `DirectoryStream` does. Returns false if no entry ends there.
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
