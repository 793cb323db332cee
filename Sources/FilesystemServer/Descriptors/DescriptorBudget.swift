// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem
import Synchronization

/// An `O_PATH` descriptor that several users hold at once; the last release closes it.
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

/// The owner of a descriptor, by number.
///
/// Not a weak reference: Swift counts the references of such objects in a separate place. That cost a tenth of the
/// instructions of a request.
enum DescriptorOwnerID: Hashable, Sendable {
    case node(NodeID)
    case file(HandleID)
    case listing(HandleID)

    /// Delegates the hash to the number, which is already well distributed.
    func _rawHashValue(seed: Int) -> Int {
        switch self {
        case .node(let id): id._rawHashValue(seed: seed)
        case .file(let id), .listing(let id): id._rawHashValue(seed: seed)
        }
    }
}

/// Holds a descriptor that it can give up, since it can open it again when necessary.
protocol DescriptorOwner: AnyObject, Sendable {
    var hasDescriptor: Bool { get }
    /// The threads that close the descriptor; nil if closing waits for no network or other process.
    var closingThreads: LazyWorkerPool? { get }
    /// Gives up the descriptor, and returns whether it did. It does not if the descriptor could not be opened again.
    func dropDescriptor() -> Bool
}

/// Limits the number of descriptors, whatever the number of inodes and open files.
///
/// A node opens its descriptor again by its parent and name, or by its file handle. An open file does so by its node, and a
/// listing by its directory. First in, first out: a descriptor in steady use costs one `openat` for each pass through the
/// queue. In return, its use needs no bookkeeping.
final class DescriptorBudget: Sendable {
    private let limit: Int
    private let handles: FileHandleResolver?
    private let count = Atomic<Int>(0)
    private let queue = Mutex(UniqueQueue<DescriptorOwnerID>())
    private let finder = Mutex<OwnerLookup?>(nil)

    /// Finds the owner with a number; nil if it has ended.
    ///
    /// A structure, because a bare closure gets one more wrapper each time it passes through a `Mutex`.
    struct OwnerLookup: Sendable {
        let find: @Sendable (DescriptorOwnerID) -> (any DescriptorOwner)?
    }

    /// Uses `handles` to find files that have no name; nil where that is not possible.
    init(limit: Int, handles: FileHandleResolver?) {
        self.limit = limit
        self.handles = handles
    }

    /// Sets the function that finds owners. Owners refer to the budget, so the budget is made first. What `find`
    /// refers to lives at least until another function is set.
    func findOwners(by find: @escaping @Sendable (DescriptorOwnerID) -> (any DescriptorOwner)?) {
        finder.withLock { $0 = OwnerLookup(find: find) }
    }

    func opened() { count.add(1, ordering: .relaxed) }
    func closed() { count.subtract(1, ordering: .relaxed) }

    /// The number of descriptors that are open now.
    var open: Int { count.load(ordering: .relaxed) }

    /// Notes that an owner holds a descriptor. Closes those of others if there are too many.
    func cached(_ keeper: DescriptorOwnerID) {
        queue.withLock { $0.push(keeper) }
        // An owner that must hold its descriptor returns to the end of the queue, so the number of tries is bounded.
        for _ in 0..<8 {
            let isFull = open > limit
            // An owner that has ended stays in the queue until it is removed here.
            guard let entry = queue.withLock({ isFull || $0.count > 2 * limit ? $0.pop() : nil }) else {
                return
            }
            guard let victim = find(entry), victim.hasDescriptor else { continue }
            guard isFull else {
                queue.withLock { $0.push(entry) }
                continue
            }
            // The descriptor may be on another file system, which must not delay this thread.
            if let closingThreads = victim.closingThreads {
                closingThreads.run { [self] in drop(victim, entry) }
            } else {
                drop(victim, entry)
            }
        }
    }

    private func drop(_ victim: any DescriptorOwner, _ entry: DescriptorOwnerID) {
        if !victim.dropDescriptor() { queue.withLock { $0.push(entry) } }
    }

    private func find(_ id: DescriptorOwnerID) -> (any DescriptorOwner)? { finder.withLock { $0 }?.find(id) }

    func fileHandle(of descriptor: SharedDescriptor, known key: FileKey) -> PersistentFileHandle? {
        handles?.fileHandle(of: descriptor, known: key)
    }

    /// Opens a file by its handle.
    func path(of fileHandle: PersistentFileHandle) throws(Errno) -> OwnedDescriptor {
        guard let handles else { throw .stale }
        return try handles.path(of: fileHandle)
    }

    /// Opens a file of the source's file system by its inode number.
    func path(ofInode inode: UInt64) throws(Errno) -> SharedDescriptor {
        guard let handles else { throw .stale }
        return SharedDescriptor(try handles.path(ofInode: inode), of: self)
    }
}
