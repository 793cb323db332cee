// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// A ``WorkerPool`` that creates its threads only when the first job comes, because jobs are rare.
///
/// The timers' thread creates the pool's threads. A caller of ``run(_:)`` must not create them: it can have the identity of a
/// requester, and new threads would inherit that identity.
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

    /// Creates a pool without threads. If the threads cannot be created later, `fallback` runs the jobs. Each new thread calls
    /// `onThreadStart` before its first job.
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

    /// Waits until all jobs are done, or until a moment: see ``WorkerPool/finish(until:)``.
    package func finish(until moment: UInt64) -> Bool {
        // The caller creates the threads itself. The process is about to end, and must not wait for the timers' thread.
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
            // If two callers have created threads at the same time, the first pool stays. All jobs move to the pool while the
            // lock is held. So a caller of `finish` finds each job either in `jobs` or in the pool.
            let kept = state.pool ?? pool
            state.pool = kept
            for job in state.jobs { kept.run(job) }
            state.jobs = []
        }
    }
}
