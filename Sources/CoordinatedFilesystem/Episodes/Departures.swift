// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Which names each thread has lately taken from a directory without putting anything in their place.
///
/// A program that saves fills the name that it has vacated before it vacates the next one. One that takes many documents away
/// (`rm -r`, `git checkout`) does not save, and no program is to wait for a name that it leaves empty.
package struct Departures: Sendable {
    private struct Entry {
        var thread: Int32 = 0
        var directory = NodeNumber(0)
        var count = 0
        /// The last of them. What they are names of is looked at when a program asks, which is seldom.
        var names = InlineArray<8, [UInt8]>(repeating: [])
        var last = Instant(nanoseconds: 0)
    }

    /// By the last digits of the threads' numbers: where two collide, the former one is forgotten.
    private var entries = [Entry](repeating: Entry(), count: 64)

    package init() {}

    /// A thread has removed a file, or has renamed it away.
    package mutating func took(
        _ name: [UInt8], from directory: NodeNumber, by thread: Int32, at now: Instant
    ) {
        let slot = Int(thread) & 63
        if !isSame(slot, thread, directory, at: now) {
            (entries[slot].thread, entries[slot].directory, entries[slot].count) = (thread, directory, 0)
        }
        entries[slot].names[entries[slot].count & 7] = name
        entries[slot].count += 1
        entries[slot].last = now
    }

    /// A thread has created something, or has linked or renamed something to a name.
    package mutating func filled(_ name: [UInt8], in directory: NodeNumber, by thread: Int32) {
        let slot = Int(thread) & 63
        guard entries[slot].thread == thread, entries[slot].directory == directory else { return }
        for index in 0..<min(8, entries[slot].count) where entries[slot].names[index] == name {
            entries[slot].count = 0
        }
    }

    /// Whether a thread has taken so many documents from a directory that none of them is in the middle of a save.
    package func areMany(by thread: Int32, from directory: NodeNumber, at now: Instant) -> Bool {
        let slot = Int(thread) & 63
        guard isSame(slot, thread, directory, at: now), entries[slot].count > EpisodeLimits.otherDepartures
        else { return false }
        let documents = (0..<min(8, entries[slot].count)).count { index in
            ItemClass(of: entries[slot].names[index], in: .ordinary) != .private
        }
        return documents > EpisodeLimits.otherDepartures
    }

    private func isSame(_ slot: Int, _ thread: Int32, _ directory: NodeNumber, at now: Instant) -> Bool {
        entries[slot].thread == thread && entries[slot].directory == directory
            && now.since(entries[slot].last) < EpisodeLimits.vacancyIdle
    }
}
