// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// A ``WorkerPool`` whose threads are made when there is something for them; nearly never.
package final class SpareWorkers: Sendable {
    private let pool = Mutex<WorkerPool?>(nil)
    private let threads: Int
    private let others: WorkerPool

    /// `others` do the work if no threads can be made.
    package init(threads: Int, else others: WorkerPool) {
        self.threads = threads
        self.others = others
    }

    package func run(_ job: @escaping @Sendable () -> Void) { made().run(job) }

    /// See ``WorkerPool/finish(until:)``.
    package func finish(until moment: UInt64) -> Bool {
        pool.withLock { $0 }?.finish(until: moment) ?? true
    }

    private func made() -> WorkerPool {
        pool.withLock { pool in
            if let pool { return pool }
            do throws(Errno) { pool = try WorkerPool(threads: threads) } catch { return others }
            return pool ?? others
        }
    }
}
