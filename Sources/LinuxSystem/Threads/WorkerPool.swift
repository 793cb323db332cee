// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// A fixed number of threads for work that can block.
///
/// Jobs start in the order of their arrival. The queue of jobs needs no limit of its own: each job belongs to a request for
/// which the kernel waits, and the kernel limits the number of such requests.
package final class WorkerPool: Sendable {
    private struct State {
        /// The jobs in the order of their arrival. When a thread takes a job, its entry becomes nil, because a job can hold
        /// much memory.
        var jobs: [(@Sendable () -> Void)?] = []
        /// The index of the first job that no thread has taken. The entries before this index are removed from time to time,
        /// many in one step.
        var first = 0
        /// The number of jobs that threads run at present.
        var running = 0
    }

    private let state = Mutex(State())
    private let tickets: OwnedDescriptor
    private let finished: WakeEvent

    /// Creates the threads. Each thread calls `onThreadStart` before its first job.
    package init(threads: Int, onThreadStart: @escaping @Sendable () -> Void = {}) throws(Errno) {
        let descriptor = clinux_event(1)
        guard descriptor >= 0 else { throw .last }
        tickets = OwnedDescriptor(adopting: descriptor)
        finished = try WakeEvent()
        for _ in 0..<threads {
            try JoinableThread { [self] in
                onThreadStart()
                work()
            }.detach()
        }
    }

    package func run(_ job: @escaping @Sendable () -> Void) {
        state.withLock { $0.jobs.append(job) }
        var one: UInt64 = 1
        _ = Glibc.write(tickets.rawValue, &one, 8)
    }

    private func work() -> Never {
        while true {
            var ticket: UInt64 = 0
            guard Glibc.read(tickets.rawValue, &ticket, 8) == 8 else { continue }
            guard let job = next() else { continue }
            job()
            state.withLock { $0.running -= 1 }
            finished.raise()
        }
    }

    /// Waits until all jobs are done, or until a moment of the monotonic clock in nanoseconds.
    ///
    /// Callers must not add jobs during the wait. Returns whether all jobs are done.
    package func finish(until moment: UInt64) -> Bool {
        while true {
            let isDone = state.withLock { $0.first == $0.jobs.count && $0.running == 0 }
            if isDone { return true }
            guard MonotonicClock.nanoseconds < moment else { return false }
            finished.wait(until: moment)
        }
    }

    private func next() -> (@Sendable () -> Void)? {
        state.withLock { state in
            guard state.first < state.jobs.count else { return nil }
            let job = state.jobs[state.first].take()
            state.first += 1
            state.running += 1
            if state.first == state.jobs.count || state.first > 1024 {
                state.jobs.removeFirst(state.first)
                state.first = 0
            }
            return job
        }
    }
}
