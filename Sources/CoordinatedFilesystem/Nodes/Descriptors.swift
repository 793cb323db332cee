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

/// Keeps a descriptor at hand that it can do without: it opens it again when it is needed.
protocol DescriptorKeeper: AnyObject, Sendable {
    var hasDescriptor: Bool { get }
    /// Lets the descriptor go, and returns whether it did; not if there were no way to open it again.
    func dropDescriptor() -> Bool
}

/// Keeps the number of descriptors below a limit, whatever the number of inodes and of open files.
///
/// A node that lost its descriptor opens it again through its parent and name, or by its file handle; an open file
/// through its node; a listing through its directory. First in, first out: what is in steady use pays one `openat` per
/// trip through the queue, which needs no bookkeeping on the way.
final class DescriptorBudget: Sendable {
    fileprivate struct Queue {
        var entries: [Entry] = []
        var head = 0
    }

    private let limit: Int
    private let handles: FileHandles?
    private let count = Atomic<Int>(0)
    private let queue = Mutex(Queue())

    /// `handles` finds files that have no name; nil where that is not possible.
    init(limit: Int, handles: FileHandles?) {
        self.limit = limit
        self.handles = handles
    }

    func opened() { count.add(1, ordering: .relaxed) }
    func closed() { count.subtract(1, ordering: .relaxed) }

    /// How many are open just now.
    var open: Int { count.load(ordering: .relaxed) }

    /// Somebody keeps a descriptor; others lose theirs if there are too many.
    func cached(_ keeper: any DescriptorKeeper) {
        queue.withLock { $0.entries.append(Entry(keeper: keeper)) }
        // What must stay goes to the end of the queue, so the number of tries is bounded.
        for _ in 0..<8 {
            let isFull = open > limit
            // What has ended stays in the queue without a descriptor until it is swept out.
            guard let entry = queue.withLock({ isFull || $0.count > 2 * limit ? $0.pop() : nil }) else {
                return
            }
            guard let victim = entry.keeper, victim.hasDescriptor else { continue }
            if !isFull || !victim.dropDescriptor() {
                queue.withLock { $0.entries.append(Entry(keeper: victim)) }
            }
        }
    }

    func handle(of descriptor: SharedDescriptor, known key: FileKey) -> FileHandle? {
        handles?.handle(of: descriptor, known: key)
    }

    /// Opens a file by its handle.
    func path(of handle: FileHandle) throws(Errno) -> OwnedDescriptor {
        guard let handles else { throw .stale }
        return try handles.path(of: handle)
    }

    /// Opens a file of the source's file system by its inode number.
    func path(ofInode inode: UInt64) throws(Errno) -> SharedDescriptor {
        guard let handles else { throw .stale }
        return SharedDescriptor(try handles.path(ofInode: inode), of: self)
    }
}

/// Does not keep what has ended alive.
private struct Entry {
    weak var keeper: (any DescriptorKeeper)?
}

extension DescriptorBudget.Queue {
    fileprivate var count: Int { entries.count - head }

    fileprivate mutating func pop() -> Entry? {
        guard head < entries.count else { return nil }
        let entry = entries[head]
        head += 1
        if head > entries.count / 2 {
            entries.removeFirst(head)
            head = 0
        }
        return entry
    }
}
