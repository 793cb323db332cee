// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem
import Synchronization

/// An `O_PATH` descriptor that several users hold at once; closed when the last lets go.
final class SharedDescriptor: Sendable {
    let descriptor: OwnedDescriptor
    private let budget: DescriptorBudget

    init(_ descriptor: consuming OwnedDescriptor, of budget: DescriptorBudget) {
        self.descriptor = descriptor
        self.budget = budget
        budget.opened()
    }

    deinit { budget.closed() }
}

/// Keeps the number of cached descriptors below a limit, whatever the number of inodes.
///
/// A node that lost its descriptor opens it again through its parent and name. First in, first out: a
/// node in steady use pays one `openat` per trip through the queue, which needs no bookkeeping on the way.
final class DescriptorBudget: Sendable {
    fileprivate struct Queue {
        var nodes: [WeakNode] = []
        var head = 0
    }

    private let limit: Int
    private let count = Atomic<Int>(0)
    private let queue = Mutex(Queue())

    init(limit: Int) { self.limit = limit }

    fileprivate func opened() { count.add(1, ordering: .relaxed) }
    fileprivate func closed() { count.subtract(1, ordering: .relaxed) }

    /// How many are open just now.
    var open: Int { count.load(ordering: .relaxed) }

    /// A node has cached a descriptor; others lose theirs if there are too many.
    func cached(_ node: Node) {
        queue.withLock { $0.nodes.append(WeakNode(node: node)) }
        // Pinned nodes go to the end of the queue, so the number of tries is bounded.
        for _ in 0..<8 {
            let isFull = open > limit
            // Forgotten nodes stay in the queue without a descriptor until they are swept out.
            guard let entry = queue.withLock({ isFull || $0.count > 2 * limit ? $0.pop() : nil }) else {
                return
            }
            guard let victim = entry.node, victim.hasDescriptor else { continue }
            if !isFull || !victim.dropDescriptor() {
                queue.withLock { $0.nodes.append(WeakNode(node: victim)) }
            }
        }
    }
}

/// Does not keep a forgotten node alive.
private struct WeakNode {
    weak var node: Node?
}

extension DescriptorBudget.Queue {
    fileprivate var count: Int { nodes.count - head }

    fileprivate mutating func pop() -> WeakNode? {
        guard head < nodes.count else { return nil }
        let node = nodes[head]
        head += 1
        if head > nodes.count / 2 {
            nodes.removeFirst(head)
            head = 0
        }
        return node
    }
}
