// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// Remembers the process of a thread, and the parent of that process.
///
/// The kernel can give the number of an ended thread to another thread. So the table holds a pidfd for each remembered thread,
/// by which the kernel confirms in half a microsecond that the thread still lives. Before Linux 6.13 the kernel cannot confirm
/// this. The table then reads `/proc`, and uses the result for 0.1 s.
package final class ThreadTable: Sendable {
    /// A thread that was alive when the table read its data.
    package struct KnownThread: Hashable, Sendable {
        /// The process of the thread (thread-group id).
        package let process: Int32
        /// The start times of the process and of the thread, in clock ticks since boot.
        package let started: UInt64
        package let threadStarted: UInt64
        /// The parent of the process when the table read its data; 0 if the parent has no number in this PID namespace.
        package let parent: Int32
        /// The real user of the thread.
        package let user: UInt32
        /// The number has meant this thread at least since this moment, in nanoseconds of ``MonotonicClock``.
        package let known: UInt64
    }

    /// The maximum number of remembered threads. Each of them takes a pidfd.
    package static let capacity = 56
    /// The time in nanoseconds for which a result from `/proc` is used without a pidfd. Within this time, the kernel does not
    /// give a number to another thread.
    private static let procfsValidity: UInt64 = 100_000_000

    fileprivate struct State {
        var entries: [Int32: (entry: Entry, used: UInt64)] = [:]
        var uses: UInt64 = 0
    }

    private let state = Mutex(State())
    private let usesPidfds: Bool

    /// Creates an empty table. Tests pass false for `usesPidfds` to simulate an old kernel.
    package init(usesPidfds: Bool = true) { self.usesPidfds = usesPidfds }

    /// The number of threads that the table remembers at present.
    package var count: Int { state.withLock { $0.entries.count } }

    /// Returns the record of a thread. Returns nil if the thread has ended, or has no number in this PID namespace.
    package func find(_ thread: Int32) -> KnownThread? { look(thread)?.found }

    /// Returns the record of a thread. If the record had to be read from `/proc`, also returns the status of the thread's
    /// process.
    package func look(_ thread: Int32) -> (found: KnownThread, leader: ProcessInspection.ProcessStatus?)? {
        guard thread > 0 else { return nil }
        if let found = remembered(thread)?.current { return (found, nil) }
        let made = Entry.make(of: thread, isHeld: usesPidfds)
        // The lock is released before the replaced entries are released and their pidfds closed.
        let former = state.withLock { $0.replace(thread, by: made?.entry) }
        withExtendedLifetime(former) {}
        return made.map { ($0.entry.found, $0.leader) }
    }

    private func remembered(_ thread: Int32) -> Entry? {
        state.withLock { state in
            guard let entry = state.entries[thread]?.entry else { return nil }
            state.uses += 1
            state.entries[thread]?.used = state.uses
            return entry
        }
    }

    private final class Pidfd: Sendable {
        let descriptor: OwnedDescriptor
        init(_ descriptor: CInt) { self.descriptor = OwnedDescriptor(adopting: descriptor) }
    }

    /// The record of a thread. The pidfd in it shows whether the number still means the same thread.
    fileprivate final class Entry: Sendable {
        let found: KnownThread
        private let held: Pidfd?

        private init(_ found: KnownThread, heldBy held: Pidfd?) {
            self.found = found
            self.held = held
        }

        static func make(
            of thread: Int32, isHeld: Bool
        ) -> (entry: Entry, leader: ProcessInspection.ProcessStatus)? {
            let known = MonotonicClock.nanoseconds
            let descriptor = isHeld ? clinux_pidfd_of_thread(thread) : -1
            var first = clinux_thread()
            var held: Pidfd?
            if descriptor >= 0, clinux_pidfd_look(descriptor, &first) == 0 {
                held = Pidfd(descriptor)
            } else {
                if descriptor >= 0 { close(descriptor) }
                guard let status = ProcessInspection.status(ofThread: thread), let user = status.user else {
                    return nil
                }
                first.process = status.process
                first.user = user
            }
            guard let own = ProcessInspection.status(ofProcess: thread),
                let leader = thread == first.process
                    ? own : ProcessInspection.status(ofProcess: first.process)
            else { return nil }
            let found = KnownThread(
                process: first.process, started: leader.started, threadStarted: own.started,
                parent: leader.parent, user: first.user, known: known)
            let entry = Entry(found, heldBy: held)
            // The values were read by the thread's number. They are valid only if the thread is still alive after the reading.
            guard held == nil || entry.current != nil else { return nil }
            return (entry, leader)
        }

        var current: KnownThread? {
            guard let held = held?.descriptor.rawValue else {
                return MonotonicClock.nanoseconds - found.known < ThreadTable.procfsValidity ? found : nil
            }
            var now = clinux_thread()
            // If the process is another one, the number now means another thread, for example after execve(2).
            guard clinux_pidfd_look(held, &now) == 0, now.process == found.process else { return nil }
            return KnownThread(
                process: found.process, started: found.started, threadStarted: found.threadStarted,
                parent: now.parent, user: now.user, known: found.known)
        }
    }
}

extension ThreadTable.State {
    /// Replaces an entry. Returns entries that the caller must release after it has released the lock.
    fileprivate mutating func replace(_ thread: Int32, by entry: ThreadTable.Entry?) -> [ThreadTable.Entry] {
        var former: [ThreadTable.Entry] = []
        if let old = entries.removeValue(forKey: thread) { former.append(old.entry) }
        guard let entry else { return former }
        if entries.count >= ThreadTable.capacity,
            let oldest = entries.min(by: { $0.value.used < $1.value.used })
        {
            entries[oldest.key] = nil
            former.append(oldest.value.entry)
        }
        uses += 1
        entries[thread] = (entry, uses)
        return former
    }
}
