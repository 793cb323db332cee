// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem

/// A name of a file that may have several names.
struct NodeName: Sendable {
    let name: NameBytes
    let directory: Node
}

/// The names of a node's file, as far as the daemon knows them.
///
///     named ──clear──▶ nameless ──set, or take another──▶ named
///
/// | transition | function |
/// |---|---|
/// | to named | ``set(_:in:isOneOfSeveral:known:)``, ``takeOther()`` |
/// | to nameless | ``clear()`` |
/// | other names | ``noteOther(_:in:)``, ``loseOther(_:in:)`` |
///
/// 1. Without a name, `name` and `parent` are the last known ones. The root has no parent. A file that is known only by a file
///   handle has no parent either.
/// 2. The known name is never among `others`, which has at most 16 names.
/// 3. The item class is determined from the known name, unless the file has the header of a database. When the file gets
///   another name, the item class of the former name is dropped.
/// 4. Only `DocumentTable` changes `isTracked`, under its lock.
///
/// A function that replaces a directory returns the former directory, because this may be the last reference to it. The caller
/// releases the lock first, and then the reference.
struct NodeNames {
    /// The most names besides the known one that are remembered. If the file changes, presenters get events only for remembered
    /// names.
    private static let mostOthers = 16

    private(set) var parent: Node?
    private(set) var name: NameBytes
    /// The names that the file has besides the known one.
    private(set) var others: [NodeName] = []
    private(set) var hasName = true
    /// Whether a program has found the document under its known name. If so, the known name is not replaced by another name.
    var isTracked = false
    /// The item class; nil until it is needed.
    var itemClass: ItemClass?

    init(_ name: NameBytes, in parent: Node?) {
        self.name = name
        self.parent = parent
    }

    /// All names that the daemon knows. If the file has a known name, it comes first.
    var all: [NodeName] {
        guard hasName, let parent else { return others }
        return [NodeName(name: name, directory: parent)] + others
    }

    /// Whether this name is the known name, or was the known name until it was removed.
    func wasLastCalled(_ name: NameBytes, in directory: Node) -> Bool {
        parent === directory && self.name == name
    }

    func isCalled(_ name: NameBytes, in directory: Node) -> Bool {
        hasName && wasLastCalled(name, in: directory)
    }

    func has(_ name: NameBytes, in directory: Node) -> Bool {
        isCalled(name, in: directory) || others.contains { $0.isSame(name, in: directory) }
    }

    /// Whether `matches` accepts one of the names; for a file without a name, the last known name counts.
    func wasKnown(by matches: (NameBytes, Node) -> Bool) -> Bool {
        if let parent, matches(name, parent) { return true }
        return others.contains { matches($0.name, $0.directory) }
    }

    /// Sets the known name. `known` is the item class to be retained, if the file has several names; otherwise nil.
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

    /// Notes that the file has lost its known name, or that this name now belongs to another file.
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

    /// Makes another name the known name, after the known name was removed. Does nothing if there is no other name.
    mutating func takeOther() -> Node? {
        guard !hasName, let other = others.popLast() else { return nil }
        (name, hasName) = (other.name, true)
        return parent.replace(with: other.directory)
    }

    /// Stores the item class that was determined for a name. Does nothing if the file has got another name meanwhile.
    mutating func note(_ itemClass: ItemClass, of name: NameBytes, in parent: Node?) {
        if self.name == name, self.parent === parent { self.itemClass = itemClass }
    }

    /// Takes out the parent when the node ends; the caller releases it.
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
    /// Replaces the value and returns the former value. So the caller decides where the former value is released.
    fileprivate mutating func replace(with value: Wrapped) -> Wrapped? {
        let former = self
        self = value
        return former
    }
}
