// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The names that each thread has lately removed or renamed in a directory, without a new file under them.
///
/// A program that saves makes a file under a missing name before it takes the next name away. A program that takes many
/// documents away (`rm -r`, `git checkout`) does not save. No program waits for the names that it leaves empty.
package struct RecentRemovals: Sendable {
    private struct Entry {
        var thread: Int32 = 0
        var directory = NodeNumber(0)
        var count = 0
        var last = Instant(nanoseconds: 0)
    }

    private static let threads = 64
    /// The number of names that are remembered for each thread.
    private static let names = 8

    /// The entries, at the index that the last bits of a thread's number give. If two threads have the same index, the
    /// former is forgotten.
    private var entries = [Entry](repeating: Entry(), count: Self.threads)
    /// The last names of each entry. Their item classes are determined only in ``areMany(by:from:at:)``, which is rarely
    /// called.
    private var names = [[UInt8]](repeating: [], count: Self.threads * Self.names)

    package init() {}

    /// Notes that a thread has removed a file, or has renamed it.
    package mutating func noteRemoved(
        _ name: [UInt8], from directory: NodeNumber, by thread: Int32, at now: Instant
    ) {
        let slot = Self.slot(of: thread)
        var entry = entries[slot]
        if !Self.isSame(entry, thread, directory, at: now) {
            entry = Entry(thread: thread, directory: directory)
        }
        names[slot * Self.names + entry.count % Self.names] = name
        entry.count += 1
        entry.last = now
        entries[slot] = entry
    }

    /// Notes that a thread has created an item at a name, or has linked or renamed an item to it.
    package mutating func noteFilled(_ name: [UInt8], in directory: NodeNumber, by thread: Int32) {
        let slot = Self.slot(of: thread)
        let entry = entries[slot]
        guard entry.thread == thread, entry.directory == directory, entry.count > 0 else { return }
        let first = slot * Self.names
        for index in first..<first + min(Self.names, entry.count) where names[index] == name {
            entries[slot].count = 0
            return
        }
    }

    /// Returns whether a thread has taken so many documents from a directory that none of them is in the middle of a
    /// save.
    package func areMany(by thread: Int32, from directory: NodeNumber, at now: Instant) -> Bool {
        let slot = Self.slot(of: thread)
        let entry = entries[slot]
        guard Self.isSame(entry, thread, directory, at: now), entry.count > SaveLimits.otherDepartures
        else { return false }
        let first = slot * Self.names
        let documents = names[first..<first + min(Self.names, entry.count)].count { name in
            ItemClass(of: name, in: .ordinary) != .private
        }
        return documents > SaveLimits.otherDepartures
    }

    private static func slot(of thread: Int32) -> Int { Int(thread) & (threads - 1) }

    private static func isSame(
        _ entry: Entry, _ thread: Int32, _ directory: NodeNumber, at now: Instant
    ) -> Bool {
        entry.thread == thread && entry.directory == directory
            && now.since(entry.last) < SaveLimits.pendingIdle
    }
}
