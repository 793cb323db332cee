// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// A ``WorkerPool`` whose threads are made when there is something for them; nearly never.
///
/// The timers' thread makes them: who needs them first may have somebody else's identity just now, which its threads would
/// keep.
package final class SpareWorkers: Sendable {
    private struct State {
        var pool: WorkerPool?
        /// Until there are threads.
        var jobs: [@Sendable () -> Void] = []
    }

    private let state = Mutex(State())
    private let threads: Int
    private let timers: Timers
    private let others: WorkerPool

    /// `others` do the work if no threads can be made.
    package init(threads: Int, by timers: Timers, else others: WorkerPool) {
        self.threads = threads
        self.timers = timers
        self.others = others
    }

    package func run(_ job: @escaping @Sendable () -> Void) {
        let (pool, isFirst): (WorkerPool?, Bool) = state.withLock { state in
            if let pool = state.pool { return (pool, false) }
            state.jobs.append(job)
            return (nil, state.jobs.count == 1)
        }
        if let pool { return pool.run(job) }
        if isFirst { timers.soon { [self] in makeThreads() } }
    }

    /// See ``WorkerPool/finish(until:)``.
    package func finish(until moment: UInt64) -> Bool {
        let (pool, isIdle) = state.withLock { ($0.pool, $0.jobs.isEmpty) }
        return pool?.finish(until: moment) ?? isIdle
    }

    private func makeThreads() {
        let pool: WorkerPool
        do throws(Errno) { pool = try WorkerPool(threads: threads) } catch { pool = others }
        let jobs = state.withLock { state in
            state.pool = pool
            defer { state.jobs = [] }
            return state.jobs
        }
        for job in jobs { pool.run(job) }
    }
}
