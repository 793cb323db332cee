// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// Runs bodies at moments of the monotonic clock, on a separate thread.
///
/// Bodies must be short, and can schedule other bodies. A body with a moment in the past runs as soon as possible.
package final class Timers: Sendable {
    fileprivate struct Entry {
        let moment: UInt64
        let serial: UInt64
        let body: @Sendable () -> Void
    }

    fileprivate struct State {
        /// The scheduled bodies as a binary heap: no entry has an earlier moment than its parent in the heap.
        var entries: [Entry] = []
        var nextSerial: UInt64 = 0
    }

    private let state = Mutex(State())
    private let alarm: WakeEvent

    package init() throws(Errno) {
        alarm = try WakeEvent()
        try JoinableThread { [self] in run() }.detach()
    }

    /// Runs `body` once, at a moment in nanoseconds, or later if the thread is busy at that moment.
    package func schedule(at moment: UInt64, _ body: @escaping @Sendable () -> Void) {
        let isFirst = state.withLock { state in
            let entry = Entry(moment: moment, serial: state.nextSerial, body: body)
            state.nextSerial += 1
            state.insert(entry)
            return state.entries[0].serial == entry.serial
        }
        if isFirst { alarm.raise() }
    }

    /// Runs `body` once, as soon as possible, on the timers' thread.
    package func runSoon(_ body: @escaping @Sendable () -> Void) { schedule(at: 0, body) }

    private func run() -> Never {
        while true {
            let now = MonotonicClock.nanoseconds
            let (due, next): ((@Sendable () -> Void)?, UInt64?) = state.withLock { state in
                guard let first = state.entries.first else { return (nil, nil) }
                guard first.moment <= now else { return (nil, first.moment) }
                return (state.removeFirst().body, nil)
            }
            if let due { due() } else { alarm.wait(until: next) }
        }
    }
}

extension Timers.State {
    fileprivate mutating func insert(_ entry: Timers.Entry) {
        entries.append(entry)
        var index = entries.count - 1
        while index > 0, isEarlier(index, than: (index - 1) / 2) {
            entries.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    fileprivate mutating func removeFirst() -> Timers.Entry {
        entries.swapAt(0, entries.count - 1)
        let first = entries.removeLast()
        var index = 0
        while true {
            var smallest = index
            for child in [2 * index + 1, 2 * index + 2] where child < entries.count {
                if isEarlier(child, than: smallest) { smallest = child }
            }
            if smallest == index { return first }
            entries.swapAt(index, smallest)
            index = smallest
        }
    }

    /// Returns whether one entry runs before another. Entries of the same moment run in the order of their scheduling.
    private func isEarlier(_ one: Int, than other: Int) -> Bool {
        (entries[one].moment, entries[one].serial) < (entries[other].moment, entries[other].serial)
    }
}

/// Wakes one sleeping thread. If the event is raised just before the thread goes to sleep, the thread does not sleep.
package struct WakeEvent: ~Copyable, Sendable {
    private let event: OwnedDescriptor

    package init() throws(Errno) {
        let descriptor = clinux_event(0)
        guard descriptor >= 0 else { throw .last }
        event = OwnedDescriptor(adopting: descriptor)
    }

    package borrowing func raise() {
        var one: UInt64 = 1
        // The write fails only if the counter is full. This means that the sleeping thread is being woken already.
        _ = Glibc.write(event.rawValue, &one, 8)
    }

    /// Sleeps until another thread raises the event, or until a moment of the monotonic clock in nanoseconds.
    package borrowing func wait(until moment: UInt64?) {
        let now = MonotonicClock.nanoseconds
        let left = moment.map { $0 > now ? Int64(clamping: $0 - now) : 0 } ?? -1
        _ = clinux_poll_until(event.rawValue, left)
        var count: UInt64 = 0
        _ = Glibc.read(event.rawValue, &count, 8)
    }
}
