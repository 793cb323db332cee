// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Pools of threads for work that may block. The threads that answer requests are never used for such work.
package final class WorkerPools: Sendable {
    enum WorkKind: Hashable {
        /// Work on files of a file system that may wait for a network or another process, without a time limit.
        case work
        /// Writes and syncs files. A slow or frozen file system delays only these threads.
        case writing, syncing
        /// Writes data to files that programs have written to a mapping. Such a write may have to wait for other
        /// writers.
        case storing
        /// Preserves contents: copies them, and waits until the copy is on the disk.
        case preserving
        /// Observes whether files have changed. To do so, the kernel may first have to write data to the files, by
        /// requests that other threads answer.
        case fileObservation
        /// Observes the file positions of programs in `/proc`.
        case processObservation
        /// Makes files with the rights of the user that asked for them.
        case making
        /// Starts opens for a user that already has many waiting opens. Each open may have to wait for a lease or for a
        /// slow file system.
        case opening
    }

    private struct Key: Hashable {
        let slot: UInt64
        let purpose: WorkKind
    }

    /// Numbers the mounts within the source, in the order in which files on them are used. Mounts with the same number
    /// (slot) share threads.
    package struct Slots {
        private var byMount: [UInt64: UInt64] = [:]

        package init() {}

        /// Returns the slot of a mount. The first ``mounts`` mounts have a slot each; each later mount shares the slot of
        /// another mount.
        package mutating func slot(of mount: UInt64) -> UInt64 {
            if let known = byMount[mount] { return known }
            guard byMount.count < WorkerPools.mounts else { return mount % UInt64(WorkerPools.mounts) }
            let slot = UInt64(byMount.count)
            byMount[mount] = slot
            return slot
        }
    }

    private struct State {
        var slots = Slots()
        var pools: [Key: LazyWorkerPool] = [:]
    }

    private static let threads = 8
    package static let mounts = 16

    private let state = Mutex(State())
    private let timers: Timers
    private let workers: WorkerPool

    init(by timers: Timers, else workers: WorkerPool) {
        self.timers = timers
        self.workers = workers
    }

    /// Returns the thread pool for one kind of work on the files of one mount. Different mounts have different pools,
    /// so work that blocks on one mount does not delay the work on another.
    func of(_ mount: UInt64, for purpose: WorkKind) -> LazyWorkerPool {
        state.withLock { state in
            let key = Key(slot: state.slots.slot(of: mount), purpose: purpose)
            if let known = state.pools[key] { return known }
            let made = LazyWorkerPool(
                threads: Self.threads, by: timers, else: workers,
                onThreadStart: ThreadIdentity.prepareIfPossible)
            state.pools[key] = made
            return made
        }
    }

    /// Waits until all work except observations is done, at most until `moment`. Returns whether the work is done.
    ///
    /// `moment`: nanoseconds of the monotonic clock.
    func finish(until moment: UInt64) -> Bool {
        let observationThreads: Set<WorkKind> = [.fileObservation, .processObservation]
        let pools = state.withLock { $0.pools.filter { !observationThreads.contains($0.key.purpose) } }
        return pools.values.reduce(true) { $1.finish(until: moment) && $0 }
    }
}

extension MountContext {
    /// Runs `body`, which works on a file and may block. A distant file's work runs on threads for that file's mount,
    /// and quick work on a local file runs on a common worker.
    func work(
        on node: Node, for purpose: WorkerPools.WorkKind = .work, _ body: @escaping @Sendable () -> Void
    ) {
        let isQuick = purpose == .work && !node.isDistant
        if isQuick { engine.workers.run(body) } else { node.threads(for: purpose).run(body) }
    }

    /// Continues a request after its wait: calls `body` with the reply.
    ///
    /// The calling thread belongs to the timers or to the control socket, so `body` must not block it. If `body` may
    /// block, it runs on a worker.
    ///
    /// `mayBlock`: whether `body` may block even on a local file, such as an open that waits for a lease. Such a body runs on a
    /// worker, unless the calling thread is one of the threads that answer requests.
    func resumeRequest(
        _ node: Node?, _ reply: consuming Reply, mayBlock: Bool = false,
        _ body: @escaping @Sendable (consuming Reply) -> Void
    ) {
        guard let node, node.isDistant || mayBlock && !ThreadIdentity.isPrepared else { return body(reply) }
        let parked = Parked(reply)
        work(on: node) {
            if let reply = parked.take() { body(reply) }
        }
    }
}
