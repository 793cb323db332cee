// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The real contents of a simulated file system: directories, packages, files with their names, and symbolic links.
struct ModelTree {
    enum Kind: Hashable {
        case file
        case directory(isPackage: Bool)
        /// A symbolic link that leads to a file or directory.
        case link(ItemID)
    }

    struct ModelNode {
        var kind: Kind
        /// All names of the item. A file with hard links has several names, each with a link number that tells the names apart.
        var names: [Place]

        var isDirectory: Bool { if case .directory = kind { true } else { false } }
    }

    private(set) var nodes: [ItemID: ModelNode] = [:]
    private var lastItem: UInt64 = 0
    private var lastLink: UInt64 = 0
    static let root = ItemID(1)

    init() { nodes[fresh()] = ModelNode(kind: .directory(isPackage: false), names: [Place()]) }

    mutating func fresh() -> ItemID {
        lastItem += 1
        return ItemID(lastItem)
    }

    mutating func freshLink() -> LinkID {
        lastLink += 1
        return LinkID(lastLink)
    }

    mutating func add(_ item: ItemID, _ kind: Kind, _ names: [Place]) {
        nodes[item] = ModelNode(kind: kind, names: names)
    }

    mutating func remove(_ item: ItemID) { nodes[item] = nil }
    mutating func setNames(_ item: ItemID, _ names: [Place]) { nodes[item]?.names = names }
    mutating func setKind(_ item: ItemID, _ kind: Kind) { nodes[item]?.kind = kind }

    var directories: [ItemID] { nodes.filter { $0.value.isDirectory }.keys.sorted() }
    var files: [ItemID] { nodes.filter { $0.value.kind == .file }.keys.sorted() }
    var links: [ItemID] {
        nodes.filter { if case .link = $0.value.kind { true } else { false } }.keys.sorted()
    }

    func children(of directory: ItemID) -> [ItemID] {
        nodes.filter { $0.value.names.contains { $0.directory == directory } }.keys.sorted()
    }

    /// Whether an item is the directory itself, or lies below it.
    func isWithin(_ item: ItemID, _ directory: ItemID) -> Bool {
        var next: ItemID? = item
        while let here = next {
            if here == directory { return true }
            next = nodes[here]?.names.first?.directory
        }
        return false
    }

    func depth(of directory: ItemID) -> Int {
        var (next, depth) = (nodes[directory]?.names.first?.directory, 0)
        while let here = next {
            depth += 1
            next = nodes[here]?.names.first?.directory
        }
        return depth
    }
}
