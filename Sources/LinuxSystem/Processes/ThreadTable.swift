// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// Which process a thread belongs to, and whose child that is.
///
/// What is remembered of a thread is held by a pidfd, and before it is told again the kernel confirms, in half a
/// microsecond, that this thread lives: whoever got its number since is somebody else. Where the kernel is too old
/// for that (before Linux 6.13) `/proc` is asked, and what it said counts for a moment.
package final class ThreadTable: Sendable {
    /// A thread that was alive when it was asked about.
    package struct KnownThread: Hashable, Sendable {
        /// Thread-group id.
        package let process: Int32
        /// Clock ticks since boot, of the process and of the thread.
        package let started: UInt64
        package let threadStarted: UInt64
        /// The process that it is a child of now; 0 for none that has a number here.
        package let parent: Int32
        /// The real user.
        package let user: UInt32
        /// Since when the thread is known to be this one, in nanoseconds of ``MonotonicClock``.
        package let known: UInt64
    }

    /// How many threads are remembered, and so the most pidfds that are held.
    package static let capacity = 56
    /// How long, in nanoseconds, `/proc` counts where nothing can be held. A number is not given away that soon.
    private static let procfsValidity: UInt64 = 100_000_000

    fileprivate struct State {
        var entries: [Int32: (entry: Entry, used: UInt64)] = [:]
        var uses: UInt64 = 0
    }

    private let state = Mutex(State())
    private let usesPidfds: Bool

    /// `usesPidfds` is no where an old kernel is played.
    package init(usesPidfds: Bool = true) { self.usesPidfds = usesPidfds }

    /// How many threads are remembered just now.
    package var count: Int { state.withLock { $0.entries.count } }

    /// Nil for numbers that are nobody's: a thread that is gone, or one that has no number in our pid namespace.
    package func find(_ thread: Int32) -> KnownThread? { look(thread)?.found }

    /// The same, and what its process is like, if that was read for it just now.
    package func look(_ thread: Int32) -> (found: KnownThread, leader: ProcessInspection.ProcessStatus?)? {
        guard thread > 0 else { return nil }
        if let found = remembered(thread)?.current { return (found, nil) }
        let made = Entry.make(of: thread, isHeld: usesPidfds)
        // What is let go of is closed after the lock.
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

    /// What was read of a thread, and the descriptor that keeps it from being mistaken.
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
            // Read by numbers: they were this thread's if it is still alive.
            guard held == nil || entry.current != nil else { return nil }
            return (entry, leader)
        }

        var current: KnownThread? {
            guard let held = held?.descriptor.rawValue else {
                return MonotonicClock.nanoseconds - found.known < ThreadTable.procfsValidity ? found : nil
            }
            var now = clinux_thread()
            // Another process, by execve(2), has another thread.
            guard clinux_pidfd_look(held, &now) == 0, now.process == found.process else { return nil }
            return KnownThread(
                process: found.process, started: found.started, threadStarted: found.threadStarted,
                parent: now.parent, user: now.user, known: found.known)
        }
    }
}

extension ThreadTable.State {
    /// Returns what must not be closed under the lock.
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
