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

/// Who keeps a descriptor, by number.
///
/// Not by a weak reference: the references of an object that has one are counted elsewhere, which made a tenth of what
/// a request executes.
enum DescriptorOwnerID: Hashable, Sendable {
    case node(NodeID)
    case file(HandleID)
    case listing(HandleID)

    /// As the numbers are spread themselves.
    func _rawHashValue(seed: Int) -> Int {
        switch self {
        case .node(let id): id._rawHashValue(seed: seed)
        case .file(let id), .listing(let id): id._rawHashValue(seed: seed)
        }
    }
}

/// Keeps a descriptor at hand that it can do without: it opens it again when it is needed.
protocol DescriptorOwner: AnyObject, Sendable {
    var hasDescriptor: Bool { get }
    /// Who lets it go: nil where that asks no file system which may wait for a network or another process.
    var closingThreads: LazyWorkerPool? { get }
    /// Lets the descriptor go, and returns whether it did; not if there were no way to open it again.
    func dropDescriptor() -> Bool
}

/// Keeps the number of descriptors below a limit, whatever the number of inodes and of open files.
///
/// A node that lost its descriptor opens it again through its parent and name, or by its file handle; an open file
/// through its node; a listing through its directory. First in, first out: what is in steady use pays one `openat` per
/// trip through the queue, which needs no bookkeeping on the way.
final class DescriptorBudget: Sendable {
    private let limit: Int
    private let handles: FileHandleResolver?
    private let count = Atomic<Int>(0)
    private let queue = Mutex(UniqueQueue<DescriptorOwnerID>())
    private let finder = Mutex<OwnerLookup?>(nil)

    /// Who a number stands for; nil if it has ended.
    ///
    /// A structure, because a bare closure comes out of a `Mutex` and goes back in a wrapper more each time.
    struct OwnerLookup: Sendable {
        let find: @Sendable (DescriptorOwnerID) -> (any DescriptorOwner)?
    }

    /// `handles` finds files that have no name; nil where that is not possible.
    init(limit: Int, handles: FileHandleResolver?) {
        self.limit = limit
        self.handles = handles
    }

    /// Says how keepers are found: they keep the budget, so it comes before them. What `find` asks must live until
    /// another is said.
    func findOwners(by find: @escaping @Sendable (DescriptorOwnerID) -> (any DescriptorOwner)?) {
        finder.withLock { $0 = OwnerLookup(find: find) }
    }

    func opened() { count.add(1, ordering: .relaxed) }
    func closed() { count.subtract(1, ordering: .relaxed) }

    /// How many are open just now.
    var open: Int { count.load(ordering: .relaxed) }

    /// Somebody keeps a descriptor; others lose theirs if there are too many.
    func cached(_ keeper: DescriptorOwnerID) {
        queue.withLock { $0.push(keeper) }
        // What must stay goes to the end of the queue, so the number of tries is bounded.
        for _ in 0..<8 {
            let isFull = open > limit
            // What has ended stays in the queue without a descriptor until it is swept out.
            guard let entry = queue.withLock({ isFull || $0.count > 2 * limit ? $0.pop() : nil }) else {
                return
            }
            guard let victim = find(entry), victim.hasDescriptor else { continue }
            guard isFull else {
                queue.withLock { $0.push(entry) }
                continue
            }
            // Another file system than the one that is just used: what keeps it is not to keep this thread.
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
