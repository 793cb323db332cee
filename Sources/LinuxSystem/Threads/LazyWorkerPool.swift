// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// A ``WorkerPool`` that creates its threads only when the first job comes, which is rare.
///
/// The timers' thread creates the threads. A caller of ``run(_:)`` may have the identity of a requester at the moment, and new
/// threads would inherit that identity.
package final class LazyWorkerPool: Sendable {
    private struct State {
        var pool: WorkerPool?
        /// The jobs that wait until the threads exist.
        var jobs: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())
    private let threads: Int
    private let timers: Timers
    private let fallback: WorkerPool
    private let onThreadStart: @Sendable () -> Void

    /// Creates a pool without threads. If no threads can be created later, `fallback` runs the jobs. Each thread calls
    /// `onThreadStart` first.
    package init(
        threads: Int, by timers: Timers, else fallback: WorkerPool,
        onThreadStart: @escaping @Sendable () -> Void = {}
    ) {
        self.threads = threads
        self.onThreadStart = onThreadStart
        self.timers = timers
        self.fallback = fallback
    }

    package func run(_ job: @escaping @Sendable () -> Void) {
        let (pool, isFirst): (WorkerPool?, Bool) = state.withLock { state in
            if let pool = state.pool { return (pool, false) }
            state.jobs.append(job)
            return (nil, state.jobs.count == 1)
        }
        if let pool { return pool.run(job) }
        if isFirst { timers.runSoon { [self] in makeThreads() } }
    }

    /// Waits until no job is left or runs, or until a moment: see ``WorkerPool/finish(until:)``.
    package func finish(until moment: UInt64) -> Bool {
        // The caller creates the threads itself, because the end of the process must not wait for the timers' thread.
        if state.withLock({ $0.pool == nil && !$0.jobs.isEmpty }) { makeThreads() }
        return state.withLock { $0.pool }?.finish(until: moment) ?? true
    }

    private func makeThreads() {
        let pool: WorkerPool
        do throws(Errno) {
            pool = try WorkerPool(threads: threads, onThreadStart: onThreadStart)
        } catch {
            pool = fallback
        }
        state.withLock { state in
            // Two callers may have created threads; the first pool stays. All jobs move under one lock, so a caller of `finish`
            // finds them either here or in the pool.
            let kept = state.pool ?? pool
            state.pool = kept
            for job in state.jobs { kept.run(job) }
            state.jobs = []
        }
    }
}
