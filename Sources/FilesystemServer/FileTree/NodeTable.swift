// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// The nodes that the kernel knows. They are found by node number or by the file below.
///
/// The table consists of shards, and a node is in the shard of its number. Invariants of each shard:
/// - I1. A file has at most one node. If file f is in `strays`, its node is `nodes[strays[f]]`. Otherwise the node has the
///   number that is computed from f (``NodeIDEncoding``). No node has this number for f if the number belongs to another file
///   or is in `retired`.
/// - I2. `lookups > 0`: a node is removed together with its last look-up.
/// - I3. No two nodes are the same item.
///
/// **Lock rule.** The mutex of a shard covers its dictionaries; no system call is made under it. The caller unlocks the mutex
/// before it drops its last reference to a removed node, because that may close a descriptor.
final class NodeTable: Sendable {
    private struct Entry {
        let node: Node
        var lookups: UInt64
    }

    private struct Shard {
        var nodes: [NodeID: Entry] = [:]
        /// Files that have another number than the computed one, because another file had the computed number.
        var strays: [FileKey: NodeID] = [:]
        /// Nodes of files that have lost their last name. A file that is now found with the inode number of such a node
        /// is a new file.
        var retired: Set<NodeID> = []
        /// The directories that are retained for a node, by the number of the node. The kernel has asked for the node by
        /// number, so it may not know the directories above the node. One look-up retains each directory as long as the kernel
        /// knows the node.
        var retainedDirectories: [NodeID: [NodeID]] = [:]
        /// The programs that have opened files which the kernel has forgotten since.
        var forgottenNotes = ForgottenNotes<FileKey>(most: NodeTable.mostForgottenNotes / 16)

        func node(of key: FileKey, numbered own: NodeID) -> Node? {
            if !strays.isEmpty, let id = strays[key] { return nodes[id]?.node }
            guard let node = nodes[own]?.node, node.key == key, retired.isEmpty || !retired.contains(own)
            else {
                return nil
            }
            return node
        }

        func anotherNumber(for key: FileKey, elsewhere: UInt64?) -> NodeID {
            NodeID(
                NodeIDEncoding.number(inode: key.inode, born: key.born, elsewhere: elsewhere) {
                    nodes[NodeID($0)] != nil
                })
        }

        /// Keeps the notes of a node that the kernel forgets, if its file still has a name.
        mutating func keepNotes(of node: Node) {
            guard node.kind == S_IFREG, retired.isEmpty || !retired.contains(node.id) else { return }
            forgottenNotes.insert(node.sightings, of: node.key)
        }

        /// Removes the file from the shard, so that the node is found by its number only.
        mutating func lose(_ node: Node) {
            if !strays.isEmpty, strays[node.key] == node.id { strays[node.key] = nil }
            if !retired.isEmpty { retired.remove(node.id) }
        }
    }

    /// The number of bits of a node's number that choose its shard. These lowest bits are also the lowest bits of the file's
    /// inode number.
    private static let shardBits: UInt64 = 4
    /// The most files whose notes are kept after the kernel has forgotten them.
    private static let mostForgottenNotes = 16_384
    private let spareItems = Atomic<UInt64>(0)
    private let shards: InlineArray<16, Mutex<Shard>>
    private let context: Node.Context
    /// Called for each directory that is added to the table or removed from it; nil if the source is not watched.
    let observer: (any NodeObserver)?
    /// The nodes with an item that differs from the node's number, by item. A thread that takes this lock holds no other lock,
    /// or only the lock of a shard.
    private let renumbered = Mutex<[ItemID: NodeID]>([:])
    let root: Node

    init(
        root: Node, context: Node.Context, observer: (any NodeObserver)?
    ) {
        self.root = root
        self.observer = observer
        self.context = context
        shards = InlineArray { _ in Mutex(Shard()) }
        shards[Self.shard(of: .root)].withLock { shard in
            shard.nodes[.root] = Entry(node: root, lookups: .max)
        }
        shards[Self.shard(of: root.key)].withLock { $0.strays[root.key] = .root }
        observer?.startWatching(root)
    }

    subscript(id: NodeID) -> Node? {
        if id == .root { return root }
        return shards[Self.shard(of: id)].withLock { $0.nodes[id]?.node }
    }

    /// The node that has this item now; nil if there is none.
    subscript(item: ItemID) -> Node? {
        let id = renumbered.withLock { $0[item] } ?? NodeID(item.rawValue)
        guard let node = self[id], node.item == item else { return nil }
        return node
    }

    /// Gives a node another item.
    func renumber(_ node: Node, as item: ItemID) {
        renumbered.withLock { renumbered in
            let former = node.exchangeItem(for: item)
            if renumbered[former] == node.id { renumbered[former] = nil }
            if item.rawValue != node.id.rawValue { renumbered[item] = node.id }
        }
    }

    /// The node of a file; nil if the file has no node. This does not count as a look-up.
    subscript(key: FileKey) -> Node? {
        if key == root.key { return root }
        return shards[Self.shard(of: key)].withLock { $0.node(of: key, numbered: ownNumber(of: key)) }
    }

    /// The number that is computed from the file. The file has this number unless another file already had it.
    private func ownNumber(of key: FileKey) -> NodeID {
        NodeID(
            NodeIDEncoding.number(
                inode: key.inode, born: key.born, elsewhere: context.submounts.realm(of: key)
            ) { _ in false })
    }

    /// Counts one more look-up of a file that was found under a name. Makes a node for the file if necessary.
    ///
    /// `isLocked` false means that the look-up was made without the kernel's lock on the directory. A rename may have happened
    /// after such a look-up, so it does not change the name of a known node. If a file with several names keeps its known name
    /// (``Node/retainsName``), the look-up does not change the name either.
    ///
    /// If the node is new, the directories in `above` are retained as long as the kernel knows the node.
    func introduce(
        _ status: FileStatus, as name: NameBytes, in parent: Node, isLocked: Bool = true,
        keeping above: [Node] = []
    ) -> Node {
        let retainedDirectories = above.filter { retain($0) }
        let (node, isNew) = enter(status, as: name, in: parent, keeping: retainedDirectories.map(\.id))
        if !isNew {
            for directory in retainedDirectories { forget(directory.id, lookups: 1) }
            let hasName = node.hasName
            let isOnly = status.linkCount <= 1 || status.isDirectory
            if !hasName || isLocked && (isOnly || !node.retainsName(insteadOf: name, in: parent)) {
                if hasName, isOnly { observer?.noteFormerName(of: node, ifOther: name, in: parent) }
                node.setName(name, in: parent, isOneOfSeveral: !isOnly)
            }
        } else if status.isDirectory {
            observer?.startWatching(node)
        }
        return node
    }

    /// Counts one more look-up of a file for which the daemon knows a file handle, but no name.
    ///
    /// The file may have a name that the daemon does not know. So the node must not count as an orphan. Writes to an orphan are
    /// preserved, because no program can find their contents by a name.
    func introduce(nameless status: FileStatus, by fileHandle: PersistentFileHandle) -> Node {
        let label = NameBytes(Array("(inode \(status.inode))".utf8))
        let (node, _) = enter(status, as: label, in: nil, keeping: [])
        node.noteFileHandle(fileHandle)
        return node
    }

    /// The node number that the file has, or would get if the kernel does not know it yet.
    func number(of status: FileStatus) -> NodeID {
        let key = FileKey(status)
        return shards[Self.shard(of: key)].withLock { $0.strays[key] } ?? ownNumber(of: key)
    }

    private func enter(
        _ status: FileStatus, as name: NameBytes, in parent: Node?, keeping above: [NodeID]
    ) -> (node: Node, isNew: Bool) {
        let key = FileKey(status)
        let own = ownNumber(of: key)
        return shards[Self.shard(of: key)].withLock { shard in
            if let known = shard.node(of: key, numbered: own) {
                if !known.isRoot { shard.nodes[known.id]?.lookups += 1 }
                return (known, false)
            }
            let id =
                shard.nodes[own] == nil
                ? own : shard.anotherNumber(for: key, elsewhere: context.submounts.realm(of: key))
            let node = Node(id, status, parent: parent, name: name, context: context)
            giveItem(to: node)
            if !shard.forgottenNotes.isEmpty, let notes = shard.forgottenNotes.take(key) {
                node.restore(notes)
            }
            shard.nodes[id] = Entry(node: node, lookups: 1)
            if id != own { shard.strays[key] = id }
            if !above.isEmpty { shard.retainedDirectories[id] = above }
            return (node, true)
        }
    }

    /// Counts one more look-up of a node, which retains the node. Returns false if the kernel has already forgotten the node.
    func retain(_ node: Node) -> Bool {
        if node.isRoot { return true }
        return shards[Self.shard(of: node.id)].withLock { shard in
            guard shard.nodes[node.id]?.node === node else { return false }
            shard.nodes[node.id]?.lookups += 1
            return true
        }
    }

    func forget(_ id: NodeID, lookups: UInt64) {
        guard id != .root else { return }
        let (forgotten, directories): (Node?, [NodeID]) = shards[Self.shard(of: id)].withLock { shard in
            guard let entry = shard.nodes[id] else { return (nil, []) }
            guard entry.lookups <= lookups else {
                shard.nodes[id]?.lookups -= lookups
                return (nil, [])
            }
            shard.nodes[id] = nil
            shard.keepNotes(of: entry.node)
            shard.lose(entry.node)
            return (
                entry.node,
                shard.retainedDirectories.isEmpty
                    ? [] : shard.retainedDirectories.removeValue(forKey: id) ?? []
            )
        }
        guard let forgotten else { return }
        for directory in directories { forget(directory, lookups: 1) }
        let item = forgotten.item
        if item.rawValue != id.rawValue {
            renumbered.withLock { renumbered in
                if renumbered[item] == id { renumbered[item] = nil }
            }
        }
        if forgotten.kind == S_IFDIR { observer?.stopWatching(forgotten) }
        forgotten.releaseAfterForget()
    }

    /// All nodes that the kernel knows, in any order.
    var all: [Node] {
        shards.indices.flatMap { index in shards[index].withLock { $0.nodes.values.map(\.node) } }
    }

    /// Releases the memory that the dictionaries used for removed nodes. Swift's dictionaries do not release this memory by
    /// themselves.
    func shrink() {
        for index in shards.indices {
            let former: Shard? = shards[index].withLock { shard in
                guard shard.nodes.capacity > 64, shard.nodes.count < shard.nodes.capacity / 4 else {
                    return nil
                }
                let former = shard
                shard = Shard()
                shard.nodes.reserveCapacity(former.nodes.count)
                shard.nodes.merge(former.nodes) { one, _ in one }
                (shard.strays, shard.retired, shard.retainedDirectories) = (
                    former.strays, former.retired, former.retainedDirectories
                )
                shard.forgottenNotes = former.forgottenNotes
                return former
            }
            withExtendedLifetime(former) {}
        }
        dropNotesOfEndedPrograms()
    }

    /// Asks the kernel about each noted process. So the caller holds no lock.
    private func dropNotesOfEndedPrograms() {
        for index in shards.indices {
            let processes = shards[index].withLock { $0.forgottenNotes.processes }
            let ended = processes.filter { !ProcessInspection.exists($0) }
            guard !ended.isEmpty else { continue }
            shards[index].withLock { $0.forgottenNotes.removeEnded(ended) }
        }
    }

    /// Notes that the file has lost its last name. From now on, a new file may have its inode number.
    func retire(_ node: Node) {
        shards[Self.shard(of: node.key)].withLock { shard in
            guard shard.nodes[node.id]?.node === node else { return }
            shard.lose(node)
            shard.retired.insert(node.id)
        }
    }

    /// Gives a new node another item if the item with the node's own number is in use. That item may be the file that replaced
    /// the node's file in a save, or a directory that the engine has not forgotten yet.
    private func giveItem(to node: Node) {
        let own = node.item
        renumbered.withLock { renumbered in
            guard
                renumbered[own] != nil || (node.kind == S_IFDIR && context.forgottenDirectories.isKnown(own))
            else {
                return
            }
            let spare = ItemID(NodeIDEncoding.end + spareItems.add(1, ordering: .relaxed).oldValue)
            node.exchangeItem(for: spare)
            renumbered[spare] = node.id
        }
    }

    private static func shard(of id: NodeID) -> Int { Int(id.rawValue & (1 << shardBits - 1)) }

    private static func shard(of key: FileKey) -> Int { Int(key.inode & (1 << shardBits - 1)) }
}

/// An object that is called when directories are added to the node table or removed, and when files are found under new names.
protocol NodeObserver: AnyObject, Sendable {
    /// The kernel knows a directory from now on, so its changes are of interest.
    func startWatching(_ node: Node)
    /// The kernel has forgotten the directory.
    func stopWatching(_ node: Node)
    /// A look-up found the file under this name. If the file's known name is another name, the observer remembers the known
    /// name.
    func noteFormerName(of node: Node, ifOther name: NameBytes, in directory: Node)
}
