// SPDX-License-Identifier: Apache-2.0
import LinuxSystem

/// One of several names of a file.
struct NodeName: Sendable {
    let name: NameBytes
    let directory: Node
}

/// The names of a node's file, as far as the kernel has looked them up.
///
///     named ──clear──▶ nameless ──set, or take another──▶ named
///
/// | transition | function |
/// |---|---|
/// | to named | ``set(_:in:isOneOfSeveral:known:)``, ``takeOther()`` |
/// | to nameless | ``clear()`` |
/// | other names | ``noteOther(_:in:)``, ``loseOther(_:in:)`` |
///
/// 1. Without a name, `name` and `parent` are the last known ones. The root, and a file known by a handle only, have no
///    parent.
/// 2. The known name is never among the others, and there are at most 16 others.
/// 3. The item class follows from the known name, but the header of a database decides first. A class for one name never
///    stays for another one.
/// 4. `DocumentTable` alone changes `isTracked`, under its lock.
///
/// A former directory may lose its last reference: it is returned, so that the caller releases it after the lock.
struct NodeNames {
    /// The most other names of a file that are remembered, and so reported when the file changes.
    private static let mostOthers = 16

    private(set) var parent: Node?
    private(set) var name: NameBytes
    /// Names besides the known one.
    private(set) var others: [NodeName] = []
    private(set) var hasName = true
    /// A program follows the document under its known name, whatever other names it has.
    var isTracked = false
    /// Nil until it is needed.
    var itemClass: ItemClass?

    init(_ name: NameBytes, in parent: Node?) {
        self.name = name
        self.parent = parent
    }

    /// All known names, the main one first.
    var all: [NodeName] {
        guard hasName, let parent else { return others }
        return [NodeName(name: name, directory: parent)] + others
    }

    /// Whether this is the known name, or was it last.
    func wasLastCalled(_ name: NameBytes, in directory: Node) -> Bool {
        parent === directory && self.name == name
    }

    func isCalled(_ name: NameBytes, in directory: Node) -> Bool {
        hasName && wasLastCalled(name, in: directory)
    }

    func has(_ name: NameBytes, in directory: Node) -> Bool {
        isCalled(name, in: directory) || others.contains { $0.isSame(name, in: directory) }
    }

    /// Whether any known name matches, or the last known one did.
    func wasKnown(by matches: (NameBytes, Node) -> Bool) -> Bool {
        if let parent, matches(name, parent) { return true }
        return others.contains { matches($0.name, $0.directory) }
    }

    /// Sets the known name. `known` is the class that stays if the name is one of several.
    mutating func set(
        _ name: NameBytes, in parent: Node, isOneOfSeveral: Bool, known: ItemClass?
    ) -> Node? {
        guard !isCalled(name, in: parent) else { return nil }
        if self.name != name || self.parent == nil { itemClass = known == .private ? nil : known }
        if isOneOfSeveral { noteFormerName(nowCalled: name, in: parent) }
        self.name = name
        hasName = true
        return self.parent.replace(with: parent)
    }

    /// Its last known name is gone or belongs to another file.
    mutating func clear() { hasName = false }

    mutating func noteOther(_ name: NameBytes, in directory: Node) {
        guard !isCalled(name, in: directory) else { return }
        add(NodeName(name: name, directory: directory))
    }

    mutating func loseOther(_ name: NameBytes, in directory: Node) -> [NodeName] {
        guard !others.isEmpty else { return [] }
        let lost = others.filter { $0.isSame(name, in: directory) }
        others.removeAll { $0.isSame(name, in: directory) }
        return lost
    }

    /// After the known name is gone, another name becomes the known one, if there is any.
    mutating func takeOther() -> Node? {
        guard !hasName, let other = others.popLast() else { return nil }
        (name, hasName) = (other.name, true)
        return parent.replace(with: other.directory)
    }

    /// Notes the class that follows from a name. The file may have been renamed meanwhile.
    mutating func note(_ itemClass: ItemClass, of name: NameBytes, in parent: Node?) {
        if self.name == name, self.parent === parent { self.itemClass = itemClass }
    }

    /// At the end of the node: the caller releases the parent.
    mutating func takeParent() -> Node? { parent.take() }

    private mutating func add(_ other: NodeName) {
        let isKnown = others.contains { $0.isSame(other.name, in: other.directory) }
        if !isKnown, others.count < Self.mostOthers { others.append(other) }
    }

    private mutating func noteFormerName(nowCalled name: NameBytes, in directory: Node) {
        others.removeAll { $0.isSame(name, in: directory) }
        if hasName, let parent { add(NodeName(name: self.name, directory: parent)) }
    }
}

extension NodeName {
    fileprivate func isSame(_ name: NameBytes, in directory: Node) -> Bool {
        self.directory === directory && self.name == name
    }
}

extension Optional where Wrapped: AnyObject {
    /// Replaces the value and returns the former one, so that the caller decides where it is released.
    fileprivate mutating func replace(with value: Wrapped) -> Wrapped? {
        let former = self
        self = value
        return former
    }
}
