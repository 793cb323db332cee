// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// Returns memory to the system after the kernel has forgotten many inodes.
///
/// The kernel forgets many inodes in a short time when memory is short, or when a tree was removed. The trimmer waits until the
/// kernel stops forgetting inodes, and then returns the memory. If programs constantly create and remove files, the kernel
/// forgets a few inodes at a time. In this case the trimmer returns memory once a minute.
final class MemoryTrimmer: Sendable {
    /// After this number of forgotten inodes, the trimmer returns the memory as soon as the kernel forgets hardly any more
    /// inodes. For fewer inodes, an immediate return of the memory is not worth the work.
    private static let threshold = 16_384
    private static let quiet = TimeSpan.seconds(1)
    /// When the kernel has forgotten `few` inodes, memory is returned at the latest after the time `longest`.
    private static let (few, longest) = (1024, TimeSpan.seconds(60))
    private let forgotten = Atomic<Int>(0)
    private let nodes: NodeTable
    private let engine: Engine

    init(of nodes: NodeTable, engine: Engine) {
        self.nodes = nodes
        self.engine = engine
    }

    /// Counts an inode that the kernel has forgotten.
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
