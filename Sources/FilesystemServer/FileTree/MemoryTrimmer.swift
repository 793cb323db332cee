// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// Gives memory back to the system once the kernel has forgotten many inodes.
///
/// The kernel forgets in storms: when it is short of memory, or a tree was removed. So this waits until a storm is over,
/// and is nothing but a counter for everybody else. Where files come and go all the time there is no storm, and what
/// is free between the blocks in use grows for long: once in a minute it is given back as well.
final class MemoryTrimmer: Sendable {
    /// A storm; fewer nodes are not worth the work.
    private static let threshold = 16_384
    private static let quiet = TimeSpan.seconds(1)
    /// So few are, once in so long.
    private static let (few, longest) = (1024, TimeSpan.seconds(60))
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
        if count == Self.few { releaseLater() }
    }

    private func releaseLater() {
        engine.timers.schedule(at: (Engine.now + Self.longest).nanoseconds) { [self] in
            if forgotten.load(ordering: .relaxed) >= Self.few { release() }
        }
    }

    private func wait(since count: Int) {
        engine.timers.schedule(at: (Engine.now + Self.quiet).nanoseconds) { [self] in
            let now = forgotten.load(ordering: .relaxed)
            guard now - count < Self.threshold / 16 else { return wait(since: now) }
            release()
        }
    }

    private func release() {
        forgotten.store(0, ordering: .relaxed)
        engine.workers.run { [nodes] in
            nodes.shrink()
            OwnProcess.releaseFreeMemory()
        }
    }
}
