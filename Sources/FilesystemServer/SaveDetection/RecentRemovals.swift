// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The names that each thread has lately removed or renamed in a directory without making a new file under one of them.
///
/// A program that saves several documents completes one save before it begins the next. A program that takes away many
/// documents in succession, such as `rm -r` or `git checkout`, is not saving. So no program waits for the names that such a
/// program takes away.
package struct RecentRemovals: Sendable {
    private struct Entry {
        var thread: Int32 = 0
        var directory = NodeNumber(0)
        var count = 0
        var last = Instant(nanoseconds: 0)
    }

    private static let threads = 64
    /// How many names are remembered for each thread.
    private static let names = 8

    /// The entries of the threads. The last bits of a thread's number are the index. If two threads have the same
    /// index, only the entry of the later one is remembered.
    private var entries = [Entry](repeating: Entry(), count: Self.threads)
    /// The last names of each entry. Whether they are names of documents is determined only in
    /// ``areMany(by:from:at:)``, which is rarely called.
    private var names = [[UInt8]](repeating: [], count: Self.threads * Self.names)

    package init() {}

    /// Notes that a thread has removed or renamed a file, so that the name is missing.
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

    /// Notes that a thread has made an item under a name, or has linked or renamed an item to the name.
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

    /// Returns whether a thread has taken so many documents away from a directory that it cannot be saving them.
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
