// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Threads besides those that everybody waits for.
final class SpareThreads: Sendable {
    enum Purpose: Hashable {
        /// What is done to files whose file system may wait for a network or another process, and so for ever.
        case work
        /// Looks at files, before which the kernel may have to write to them: by requests, which other threads answer.
        case looks
    }

    private struct Key: Hashable {
        let mount: UInt64
        let purpose: Purpose
    }

    private static let threads = 8
    /// Mounts come and go; more than so many share their threads.
    private static let mounts: UInt64 = 16

    private let pools = Mutex<[Key: SpareWorkers]>([:])
    private let timers: Timers
    private let workers: WorkerPool

    init(by timers: Timers, else workers: WorkerPool) {
        self.timers = timers
        self.workers = workers
    }

    /// Those for the files of one mount: what it keeps, keeps no other.
    func of(_ mount: UInt64, for purpose: Purpose) -> SpareWorkers {
        pools.withLock { pools in
            let key = Key(mount: mount % Self.mounts, purpose: purpose)
            if let known = pools[key] { return known }
            let made = SpareWorkers(threads: Self.threads, by: timers, else: workers)
            pools[key] = made
            return made
        }
    }

    /// Waits for all work, until a moment of the monotonic clock in nanoseconds. Returns whether it is done.
    func finish(until moment: UInt64) -> Bool {
        let pools = pools.withLock { $0.filter { $0.key.purpose == .work } }
        return pools.values.reduce(true) { $1.finish(until: moment) && $0 }
    }
}

extension CoordinatedFilesystem {
    /// Does something that may block.
    func work(on node: Node, _ body: @escaping @Sendable () -> Void) {
        if node.isDistant { node.threads(for: .work).run(body) } else { engine.workers.run(body) }
    }

    /// Answers a request whose wait is over.
    ///
    /// What decides is one of those threads that everybody waits for: of the timers, or of the control socket.
    func goOn(_ node: Node?, _ reply: consuming Reply, _ body: @escaping @Sendable (consuming Reply) -> Void)
    {
        guard let node, node.isDistant else { return body(reply) }
        let parked = Parked(reply)
        node.threads(for: .work).run {
            if let reply = parked.take() { body(reply) }
        }
    }
}
