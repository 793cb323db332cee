// SPDX-License-Identifier: Apache-2.0

/// The notes of files that the kernel has forgotten, so that they have no node any more (D266).
///
/// When memory is short, the kernel forgets files that no program has open. A program that has read such a file may still run,
/// and save the file later. When the kernel asks for the file again, its new node gets the notes back.
package struct ForgottenNotes<File: Hashable & Sendable>: Sendable {
    private var notes: [File: NodeSightings] = [:]
    private let most: Int

    /// `most`: the most files with notes.
    package init(most: Int) { self.most = most }

    package var isEmpty: Bool { notes.isEmpty }
    package var count: Int { notes.count }
    /// All processes that are noted.
    package var processes: Set<Int32> { notes.values.reduce(into: []) { $0.formUnion($1.processes) } }

    package mutating func insert(_ sightings: NodeSightings, of file: File) {
        guard sightings.hasNotes else { return }
        if notes.count >= most { makeRoom() }
        notes[file] = sightings
    }

    /// Removes the notes of a file, and returns them.
    package mutating func take(_ file: File) -> NodeSightings? { notes.removeValue(forKey: file) }

    /// Removes the notes of files that only ended processes have read. These processes cannot save any more.
    package mutating func removeEnded(_ ended: Set<Int32>) {
        notes = notes.filter { !$0.value.readers.allSatisfy { ended.contains($0.process) } }
    }

    /// A program that searches a whole tree has notes on very many files, and saves few of them. So the files are dropped first
    /// that only the process with the most notes has used. Then any files, until an eighth of the room is free.
    private mutating func makeRoom() {
        var counts: [Int32: Int] = [:]
        for process in notes.values.flatMap(\.processes) { counts[process, default: 0] += 1 }
        if let busiest = counts.max(by: { ($0.value, $0.key) < ($1.value, $1.key) })?.key {
            notes = notes.filter { $0.value.processes != [busiest] }
        }
        for file in notes.keys.prefix(max(0, notes.count - most * 7 / 8)) { notes[file] = nil }
    }
}
