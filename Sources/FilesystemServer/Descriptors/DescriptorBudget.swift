// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem
import Synchronization

/// An `O_PATH` descriptor that several parts of the daemon can use at the same time. It is closed when no part needs it.
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

/// Identifies the owner of a descriptor by the owner's number.
///
/// The budget stores no weak reference to an owner, because weak references are slow: they took a tenth of the instructions of
/// a request.
enum DescriptorOwnerID: Hashable, Sendable {
    case node(NodeID)
    case file(HandleID)
    case listing(HandleID)

    /// Hashes only the number, because the numbers of nodes and handles are already well distributed.
    func _rawHashValue(seed: Int) -> Int {
        switch self {
        case .node(let id): id._rawHashValue(seed: seed)
        case .file(let id), .listing(let id): id._rawHashValue(seed: seed)
        }
    }
}

/// An object that caches a descriptor. It can close the descriptor, and open it again later.
protocol DescriptorOwner: AnyObject, Sendable {
    var hasDescriptor: Bool { get }
    /// The threads on which the descriptor is closed. Nil if closing it never waits for a network or another process.
    var closingThreads: LazyWorkerPool? { get }
    /// Closes the descriptor, unless the owner could not open it again. Returns whether the owner now has no open descriptor.
    func dropDescriptor() -> Bool
}

/// Limits the number of descriptors that the daemon has open, however many inodes and open files there are.
///
/// A node opens its descriptor again by its parent and name, or by its file handle. An open file uses its node for this, and a
/// listing uses its directory. When there are too many descriptors, the budget closes the one that was opened first. So a use
/// of a descriptor needs no bookkeeping, but a descriptor in constant use is also closed and opened again now and then.
final class DescriptorBudget: Sendable {
    private let limit: Int
    private let handles: FileHandleResolver?
    private let count = Atomic<Int>(0)
    private let queue = Mutex(UniqueQueue<DescriptorOwnerID>())
    private let finder = Mutex<OwnerLookup?>(nil)

    /// Finds the owner with a given number; returns nil if the owner no longer exists.
    ///
    /// The function is a property of a structure, because a bare closure would get another wrapper each time it passes through
    /// a `Mutex`.
    struct OwnerLookup: Sendable {
        let find: @Sendable (DescriptorOwnerID) -> (any DescriptorOwner)?
    }

    /// Creates a budget. The budget opens files without a name by `handles`, which is nil if the daemon cannot open files by
    /// file handles.
    init(limit: Int, handles: FileHandleResolver?) {
        self.limit = limit
        self.handles = handles
    }

    /// Sets the function that finds an owner by its number. It is set later than the budget is created, because the owners
    /// refer to the budget.
    ///
    /// The objects that `find` uses must exist at least until another function is set.
    func findOwners(by find: @escaping @Sendable (DescriptorOwnerID) -> (any DescriptorOwner)?) {
        finder.withLock { $0 = OwnerLookup(find: find) }
    }

    func opened() { count.add(1, ordering: .relaxed) }
    func closed() { count.subtract(1, ordering: .relaxed) }

    /// The number of descriptors that are open now.
    var open: Int { count.load(ordering: .relaxed) }

    /// Notes that an owner has opened a descriptor. If too many descriptors are open, closes descriptors of other owners.
    func cached(_ keeper: DescriptorOwnerID) {
        queue.withLock { $0.push(keeper) }
        // An owner that cannot close its descriptor returns to the end of the queue. If there were no limit on the attempts,
        // the loop might not end.
        for _ in 0..<8 {
            let isFull = open > limit
            // The queue may contain the numbers of owners that no longer exist. Such numbers are removed here when the queue is
            // long.
            guard let entry = queue.withLock({ isFull || $0.count > 2 * limit ? $0.pop() : nil }) else {
                return
            }
            guard let victim = find(entry), victim.hasDescriptor else { continue }
            guard isFull else {
                queue.withLock { $0.push(entry) }
                continue
            }
            // The file may be on another file system. Closing such a file may take long, so another thread closes it.
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

    /// Opens a file by the file handle that the file system below has given for it.
    func path(of fileHandle: PersistentFileHandle) throws(Errno) -> OwnedDescriptor {
        guard let handles else { throw .stale }
        return try handles.path(of: fileHandle)
    }

    /// Opens a file of the source's file system by the file's inode number.
    func path(ofInode inode: UInt64) throws(Errno) -> SharedDescriptor {
        guard let handles else { throw .stale }
        return SharedDescriptor(try handles.path(ofInode: inode), of: self)
    }
}
