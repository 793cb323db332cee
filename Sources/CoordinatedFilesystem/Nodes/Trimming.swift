// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// Gives memory back to the system once the kernel has forgotten many inodes.
///
/// The kernel forgets in storms: when it is short of memory, or a tree was removed. So this waits until a storm is over,
/// and is nothing but a counter for everybody else.
final class Trimming: Sendable {
    /// A storm; fewer nodes are not worth the work.
    private static let threshold = 16_384
    private static let quiet = Span.seconds(1)
    private let forgotten = Atomic<Int>(0)
    private let nodes: NodeTable
    private let engine: Engine

    init(of nodes: NodeTable, engine: Engine) {
        self.nodes = nodes
        self.engine = engine
    }

    /// The kernel has forgotten an inode.
    func noteForgotten() {
        let count = forgotten.add(1, ordering: .relaxed).newValue
        if count == Self.threshold { wait(since: count) }
    }

    private func wait(since count: Int) {
        engine.timers.schedule(at: (Engine.now + Self.quiet).nanoseconds) { [self] in
            let now = forgotten.load(ordering: .relaxed)
            guard now - count < Self.threshold / 16 else { return wait(since: now) }
            forgotten.store(0, ordering: .relaxed)
            engine.workers.run { [nodes] in
                nodes.shrink()
                OwnProcess.releaseFreeMemory()
            }
        }
    }
}
