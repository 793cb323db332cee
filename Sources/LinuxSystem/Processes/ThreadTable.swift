// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// Remembers the process of a thread, and the parent of that process.
///
/// The table holds a pidfd for each remembered thread. Before the table returns an entry again, the kernel confirms that the
/// thread still lives, which takes half a microsecond. So the table notices a reused number. Before Linux 6.13 the kernel
/// cannot confirm this. Then the table reads `/proc`, and uses the answer for 0.1 s.
package final class ThreadTable: Sendable {
    /// A thread that was alive when the table looked it up.
    package struct KnownThread: Hashable, Sendable {
        /// The process of the thread (thread-group id).
        package let process: Int32
        /// The start times of the process and of the thread, in clock ticks since boot.
        package let started: UInt64
        package let threadStarted: UInt64
        /// The parent of the process at this time; 0 if the parent has no number in this PID namespace.
        package let parent: Int32
        /// The real user of the thread.
        package let user: UInt32
        /// The moment since which this number is known to mean this thread, in nanoseconds of ``MonotonicClock``.
        package let known: UInt64
    }

    /// The maximum number of remembered threads, and so of pidfds.
    package static let capacity = 56
    /// The time in nanoseconds for which an answer from `/proc` is valid without a pidfd. The kernel does not reuse a number in
    /// so short a time.
    private static let procfsValidity: UInt64 = 100_000_000

    fileprivate struct State {
        var entries: [Int32: (entry: Entry, used: UInt64)] = [:]
        var uses: UInt64 = 0
    }

    private let state = Mutex(State())
    private let usesPidfds: Bool

    /// Creates an empty table; `usesPidfds` is false in tests that simulate an old kernel.
    package init(usesPidfds: Bool = true) { self.usesPidfds = usesPidfds }

    /// The number of threads that the table remembers at present.
    package var count: Int { state.withLock { $0.entries.count } }

    /// Returns the record of a thread; nil if the thread has ended, or has no number in this PID namespace.
    package func find(_ thread: Int32) -> KnownThread? { look(thread)?.found }

    /// Returns the record of a thread. If the table had to read `/proc`, also returns the status of the thread's process.
    package func look(_ thread: Int32) -> (found: KnownThread, leader: ProcessInspection.ProcessStatus?)? {
        guard thread > 0 else { return nil }
        if let found = remembered(thread)?.current { return (found, nil) }
        let made = Entry.make(of: thread, isHeld: usesPidfds)
        // Replaced entries are released, and their pidfds closed, after the lock.
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

    /// The record of a thread. Its pidfd shows whether the number still means the same thread.
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
            // The values were read by the thread's number. They belong to this thread only if the thread is still alive.
            guard held == nil || entry.current != nil else { return nil }
            return (entry, leader)
        }

        var current: KnownThread? {
            guard let held = held?.descriptor.rawValue else {
                return MonotonicClock.nanoseconds - found.known < ThreadTable.procfsValidity ? found : nil
            }
            var now = clinux_thread()
            // If the process differs, the number means another thread now, for example after execve(2).
            guard clinux_pidfd_look(held, &now) == 0, now.process == found.process else { return nil }
            return KnownThread(
                process: found.process, started: found.started, threadStarted: found.threadStarted,
                parent: now.parent, user: now.user, known: found.known)
        }
    }
}

extension ThreadTable.State {
    /// Replaces an entry, and returns the entries that the caller must release after it has released the lock.
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
