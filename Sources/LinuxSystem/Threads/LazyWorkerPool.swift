// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// A ``WorkerPool`` whose threads are made when there is something for them; nearly never.
///
/// The timers' thread makes them: who needs them first may have somebody else's identity just now, which its threads would
/// keep.
package final class LazyWorkerPool: Sendable {
    private struct State {
        var pool: WorkerPool?
        /// Until there are threads.
        var jobs: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())
    private let threads: Int
    private let timers: Timers
    private let fallback: WorkerPool
    private let onThreadStart: @Sendable () -> Void

    /// `fallback` do the work if no threads can be made. Each thread calls `onThreadStart` first.
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

    /// See ``WorkerPool/finish(until:)``.
    package func finish(until moment: UInt64) -> Bool {
        // Whoever ends the process need not wait for threads that are being made.
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
            // Two may have come to make them; and who waits for the end must find the jobs in one place or the other.
            let kept = state.pool ?? pool
            state.pool = kept
            for job in state.jobs { kept.run(job) }
            state.jobs = []
        }
    }
}
