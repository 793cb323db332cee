// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The directories that the arbiter was told of, with indexes for the most frequent queries.
///
/// Files are not in the tree: each claim and each presenter states the directory of its file. If the arbiter was not
/// told of a parent directory yet, that parent is treated as a root.
///
/// Invariants (I7):
///
/// - Each directory is in the list of its parent, and in no other list. No directory is below itself.
/// - `outermostPackage` is the topmost package among the directory itself and the directories above it. `packages` is
///   the number of packages.
/// - `presentersBelow` is the number of presenters of items below a directory.
struct DirectoryTree: Sendable {
    private struct DirectoryNode: Sendable {
        var parent: ItemID?
        var isPackage = false
        /// The topmost package among the directory itself and the directories above it; nil outside of packages.
        var outermostPackage: ItemID?
        var directories: Set<ItemID> = []
        /// I7: The number of presenters of items below the directory.
        var presentersBelow = 0
        /// Whether the directory is gone. Its node stays as long as the tree has a directory or a presenter below it.
        var isForgotten = false
    }

    private var nodes: [ItemID: DirectoryNode] = [:]
    /// The number of directories that are packages.
    private(set) var packages = 0

    var isEmpty: Bool { nodes.isEmpty }
    var count: Int { nodes.count }
    var directories: [ItemID] { nodes.keys.sorted() }

    func isDirectory(_ item: ItemID) -> Bool { !nodes.isEmpty && nodes[item] != nil }
    func isPackage(_ item: ItemID) -> Bool { packages > 0 && nodes[item]?.isPackage ?? false }
    /// Whether an item is a directory outside all packages.
    func isPlainDirectory(_ item: ItemID) -> Bool { nodes[item].map { $0.outermostPackage == nil } ?? false }
    func presentersBelow(_ directory: ItemID) -> Int { nodes[directory]?.presentersBelow ?? 0 }
    func directories(in directory: ItemID) -> Set<ItemID> { nodes[directory]?.directories ?? [] }

    /// The parent directory of an item: from the tree if the item is a directory in the tree, else from the given
    /// place.
    func parent(of item: ItemID, at place: Place) -> ItemID? {
        if nodes.isEmpty { return place.directory }
        guard let node = nodes[item] else { return place.directory }
        return node.parent
    }

    /// S2: The topmost package among an item and the directories above it; nil outside of packages.
    func outermostPackage(of item: ItemID, at place: Place) -> ItemID? {
        if packages == 0 { return nil }
        if let node = nodes[item] { return node.outermostPackage }
        return place.directory.flatMap { nodes[$0]?.outermostPackage }
    }

    /// The directories above an item, the nearest first.
    func ancestors(of item: ItemID, at place: Place) -> Ancestors {
        Ancestors(tree: self, directory: parent(of: item, at: place))
    }

    struct Ancestors: Sequence, IteratorProtocol {
        fileprivate let tree: DirectoryTree
        fileprivate var directory: ItemID?

        mutating func next() -> ItemID? {
            defer { directory = directory.flatMap { tree.nodes[$0]?.parent } }
            return directory
        }
    }

    func isBelow(_ item: ItemID, at place: Place, _ directory: ItemID) -> Bool {
        ancestors(of: item, at: place).contains(directory)
    }

    /// Decides for very many items whether each item is below one directory. Visits each directory only once.
    struct Subtree {
        let top: ItemID
        private var known: [ItemID: Bool] = [:]

        init(below top: ItemID) { self.top = top }

        mutating func contains(_ item: ItemID, at place: Place, in tree: DirectoryTree) -> Bool {
            var way: [ItemID] = []
            var isInside = false
            for directory in tree.ancestors(of: item, at: place) {
                if directory == top {
                    isInside = true
                    break
                }
                if let answer = known[directory] {
                    isInside = answer
                    break
                }
                way.append(directory)
            }
            for directory in way { known[directory] = isInside }
            return isInside
        }
    }
}

extension DirectoryTree {
    /// Adds or updates a directory. The caller removes the directory's own presenters from the counts before this call,
    /// and adds them again after it.
    ///
    /// Returns whether the outermost package of any directory has changed.
    @discardableResult
    mutating func place(_ item: ItemID, _ directory: DirectoryInfo) -> Bool {
        var parent = directory.parent
        // A parent is ignored if it is the directory itself, or is below the directory.
        if let above = parent,
            above == item || (nodes[item]?.directories.isEmpty == false && isBelow(above, at: Place(), item))
        {
            parent = nodes[item]?.parent
        }
        if let parent { ensureNode(parent) }
        ensureNode(item)
        nodes[item]?.isForgotten = false
        let former = nodes[item]?.parent
        if former != parent {
            let below = presentersBelow(item)
            detach(item, from: former, presenters: below)
            attach(item, to: parent, presenters: below)
            if let former { drop(former) }
        }
        if isPackage(item) != directory.isPackage {
            packages += directory.isPackage ? 1 : -1
            nodes[item]?.isPackage = directory.isPackage
        }
        return updateUnits(from: item)
    }

    /// Adds an empty node for a directory that the arbiter will be told of.
    mutating func ensureNode(_ item: ItemID) {
        if nodes[item] == nil { nodes[item] = DirectoryNode() }
    }

    private mutating func attach(_ item: ItemID, to parent: ItemID?, presenters: Int) {
        nodes[item]?.parent = parent
        guard let parent else { return }
        nodes[parent]?.directories.insert(item)
        count(presenters, from: parent)
    }

    private mutating func detach(_ item: ItemID, from parent: ItemID?, presenters: Int) {
        guard let parent else { return }
        nodes[parent]?.directories.remove(item)
        count(-presenters, from: parent)
    }

    /// Removes a directory that is gone, as soon as the tree has no directory and no presenter below it.
    mutating func forget(_ item: ItemID) {
        nodes[item]?.isForgotten = true
        drop(item)
    }

    /// Removes a directory if it is gone and nothing is below it. Then does the same for each directory above.
    private mutating func drop(_ item: ItemID) {
        var next: ItemID? = item
        while let item = next, let node = nodes[item], node.isForgotten, node.directories.isEmpty,
            node.presentersBelow == 0
        {
            detach(item, from: node.parent, presenters: 0)
            if node.isPackage { packages -= 1 }
            nodes[item] = nil
            next = node.parent
        }
    }

    /// Adds to the numbers of presenters below a directory and below all directories above it.
    mutating func count(_ presenters: Int, from directory: ItemID?) {
        guard presenters != 0 else { return }
        var next = directory
        while let item = next, let entry = nodes.index(forKey: item) {
            nodes.values[entry].presentersBelow += presenters
            next = nodes.values[entry].parent
        }
        if presenters < 0, let directory { drop(directory) }
    }

    private mutating func updateUnits(from item: ItemID) -> Bool {
        var hasChanged = false
        var unexplored = [item]
        while let next = unexplored.popLast() {
            guard let node = nodes[next] else { continue }
            let outermostPackage =
                node.parent.flatMap { nodes[$0]?.outermostPackage } ?? (node.isPackage ? next : nil)
            guard outermostPackage != node.outermostPackage else { continue }
            hasChanged = true
            nodes[next]?.outermostPackage = outermostPackage
            unexplored += node.directories
        }
        return hasChanged
    }
}

extension DirectoryTree {
    /// I7: The tree is consistent, and its counts match the given presenters.
    func checkInvariants(presenters: [(item: ItemID, directory: ItemID?)]) {
        for (item, node) in nodes {
            if let parent = node.parent {
                assert(nodes[parent]?.directories.contains(item) ?? false, "I7: parent")
            }
            assert(node.directories.allSatisfy { nodes[$0]?.parent == item }, "I7: directories")
            let packages = (node.isPackage ? [item] : []) + ancestors(of: item, at: Place()).filter(isPackage)
            assert(node.outermostPackage == packages.last, "I7: unit")
            let below = presenters.count { isBelow($0.item, at: Place(in: $0.directory), item) }
            assert(node.presentersBelow == below, "I7: presenters below")
        }
        assert(packages == nodes.values.count(where: \.isPackage), "I7: packages")
    }
}
