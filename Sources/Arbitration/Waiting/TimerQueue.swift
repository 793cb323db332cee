// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Timers in the order of their moments, the earliest first (a binary heap).
///
/// A timer that is no longer needed is not searched for and removed, but is skipped when its moment comes.
struct TimerQueue: Sendable {
    /// T4: The subject of a timer. Timers with the same moment are handled in the order of their subjects.
    enum Subject: Hashable, Comparable, Sendable {
        case question(QuestionID)
        case accessSession(AccessSessionID)
        case claim(ClaimID)
        /// D5: The deferred search for cycles.
        case search
    }

    struct TimerEntry: Comparable, Sendable {
        let moment: Instant
        let subject: Subject

        /// T4: Orders timers by their moment, and timers of one moment by their subject.
        static func < (one: Self, other: Self) -> Bool {
            one.moment == other.moment ? one.subject < other.subject : one.moment < other.moment
        }
    }

    private var heap: [TimerEntry] = []

    var count: Int { heap.count }
    var earliest: TimerEntry? { heap.first }

    mutating func insert(_ timer: TimerEntry) {
        heap.append(timer)
        var child = heap.count - 1
        while child > 0, heap[child] < heap[(child - 1) / 2] {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func removeEarliest() {
        guard let last = heap.popLast(), !heap.isEmpty else { return }
        heap[0] = last
        sink(0)
    }

    /// Removes all timers except those for which the closure returns true.
    mutating func keep(_ isWanted: (TimerEntry) -> Bool) {
        // Makes a new array, so that the memory of very many removed timers is freed.
        heap = heap.filter(isWanted)
        for index in stride(from: heap.count / 2 - 1, through: 0, by: -1) { sink(index) }
    }

    private mutating func sink(_ start: Int) {
        var parent = start
        while true {
            var least = parent
            for child in (2 * parent + 1)...(2 * parent + 2)
            where child < heap.count && heap[child] < heap[least] {
                least = child
            }
            guard least != parent else { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
