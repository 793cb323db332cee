// SPDX-License-Identifier: Apache-2.0
import Coordination
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// The nodes that the kernel knows, by its number and by their file.
///
/// Invariants, per shard:
/// - I1. The node of file f is `nodes[strays[f]]` if there is such a stray. Otherwise it has the number that follows from f
///   (``NodeIDEncoding``), unless that number is another file's or `retired`. A file has at most one such node.
/// - I2. `lookups > 0`: a node leaves with its last lookup.
/// - I3. No two nodes are the same item.
///
/// **Lock rule.** A shard's mutex covers its dictionaries; no system call is made under it. The caller destroys a removed
/// node after it has released the lock.
final class NodeTable: Sendable {
    private struct Entry {
        let node: Node
        var lookups: UInt64
    }

    private struct Shard {
        var nodes: [NodeID: Entry] = [:]
        /// Files that have another number because their own one was taken.
        var strays: [FileKey: NodeID] = [:]
        /// Nodes of files that have lost their last name. A file that now has their inode number is a different one.
        var retired: Set<NodeID> = []
        /// Directories above nodes that the kernel asked for by number. The kernel may not know these directories. Each one
        /// stays, by one lookup, as long as the kernel knows the node.
        var retainedDirectories: [NodeID: [NodeID]] = [:]

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

        /// Makes the node unreachable by its file.
        mutating func lose(_ node: Node) {
            if !strays.isEmpty, strays[node.key] == node.id { strays[node.key] = nil }
            if !retired.isEmpty { retired.remove(node.id) }
        }
    }

    /// A node's number ends in the number of its shard, as the inode number does.
    private static let shardBits: UInt64 = 4
    private let spareItems = Atomic<UInt64>(0)
    private let shards: InlineArray<16, Mutex<Shard>>
    private let context: Node.Context
    /// Is told of each directory; nil if the source is not watched.
    let observer: (any NodeObserver)?
    /// Nodes with an item that differs from their number, by item. Its lock is taken alone, or after a shard's.
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

    /// The node that currently is an item.
    subscript(item: ItemID) -> Node? {
        let id = renumbered.withLock { $0[item] } ?? NodeID(item.rawValue)
        guard let node = self[id], node.item == item else { return nil }
        return node
    }

    /// Makes a node another item.
    func renumber(_ node: Node, as item: ItemID) {
        renumbered.withLock { renumbered in
            let former = node.exchangeItem(for: item)
            if renumbered[former] == node.id { renumbered[former] = nil }
            if item.rawValue != node.id.rawValue { renumbered[item] = node.id }
        }
    }

    /// The node of a file, without counting a lookup.
    subscript(key: FileKey) -> Node? {
        if key == root.key { return root }
        return shards[Self.shard(of: key)].withLock { $0.node(of: key, numbered: ownNumber(of: key)) }
    }

    /// The number of a file, if no other file has it.
    private func ownNumber(of key: FileKey) -> NodeID {
        NodeID(
            NodeIDEncoding.number(
                inode: key.inode, born: key.born, elsewhere: context.submounts.realm(of: key)
            ) { _ in false })
    }

    /// Counts one more lookup of a file that was found under a name, and makes its node if necessary.
    ///
    /// A lookup without the kernel's lock on the directory (`isLocked` false) may be older than a rename. So it does not
    /// change the name of a known node. Another link of a file that keeps its name does not either (``Node/retainsName``).
    /// Directories in `above` are retained as long as a new node is known.
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

    /// Counts one more lookup of a file that is known by a handle, but by no name. Its node must not count as an orphan: a
    /// writer to the file would seem to write to contents that no program can find again.
    func introduce(nameless status: FileStatus, by fileHandle: PersistentFileHandle) -> Node {
        let label = NameBytes(Array("(inode \(status.inode))".utf8))
        let (node, _) = enter(status, as: label, in: nil, keeping: [])
        node.noteFileHandle(fileHandle)
        return node
    }

    /// The number that a file has, or would get if it is unknown.
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
            shard.nodes[id] = Entry(node: node, lookups: 1)
            if id != own { shard.strays[key] = id }
            if !above.isEmpty { shard.retainedDirectories[id] = above }
            return (node, true)
        }
    }

    /// Counts one more lookup of a node to be retained. Returns false if the kernel has already forgotten it.
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

    /// All nodes that the kernel knows.
    var all: [Node] {
        shards.indices.flatMap { index in shards[index].withLock { $0.nodes.values.map(\.node) } }
    }

    /// Releases the memory of removed nodes, since a dictionary never shrinks by itself.
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
                return former
            }
            withExtendedLifetime(former) {}
        }
    }

    /// Notes that the file has lost its last name: its inode number may be reused by another file.
    func retire(_ node: Node) {
        shards[Self.shard(of: node.key)].withLock { shard in
            guard shard.nodes[node.id]?.node === node else { return }
            shard.lose(node)
            shard.retired.insert(node.id)
        }
    }

    /// Gives the node another item if its own number's item is in use. That item may belong to the file that replaced this
    /// one in a save, or to a directory that the engine has not forgotten yet.
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

/// Is told which directories and names the nodes of a tree have.
protocol NodeObserver: AnyObject, Sendable {
    /// The kernel knows a directory from now on.
    func startWatching(_ node: Node)
    /// The kernel has forgotten a directory.
    func stopWatching(_ node: Node)
    /// A lookup found a file that may have had another name.
    func noteFormerName(of node: Node, ifOther name: NameBytes, in directory: Node)
}
