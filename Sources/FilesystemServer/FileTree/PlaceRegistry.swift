// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Tells the engine where items are: in which directory, and under which name.
///
/// A directory is *placed* if the engine was told the directory and its parent. A directory is placed before the engine gets
/// the first item in it, and stays placed as long as its node lives. From this the engine determines whether a move of the
/// directory must wait for a claim on a file in it.
final class PlaceRegistry: Sendable {
    private let engine: Engine
    private let forgottenDirectories: ForgottenDirectories
    private let names = LinkNameCache()
    private let renamed = UnreportedRenames()

    init(engine: Engine, forgottenDirectories: ForgottenDirectories) {
        self.engine = engine
        self.forgottenDirectories = forgottenDirectories
    }

    /// The place of a file or directory. It contains the directory of the known name.
    func place(of node: Node) -> Place {
        if node.kind == S_IFDIR { _ = ensure(node) }
        return node.parent.map { place(in: $0) } ?? Place()
    }

    func place(in directory: Node) -> Place { Place(in: ensure(directory)) }

    /// The place of a name in a directory, for an event. The name is remembered, because a presenter may read the event later.
    func place(_ name: NameBytes, in directory: Node) -> Place {
        Place(in: ensure(directory), link: names.note(name, in: directory))
    }

    /// The path of a name that was part of an event; nil if the name is not remembered any more.
    func path(of link: LinkID) -> [UInt8]? {
        names.entry(of: link).map { renamed.path(of: $0.name, in: $0.directory) }
    }

    /// Notes that a file or directory is about to be renamed. Presenters get the event for the rename later.
    func beginRename(of node: Node, from name: NodeName) { renamed.begin(node, name) }
    /// Notes that the event for the rename is being sent. May be called under the engine's lock.
    func endRename(of node: Node) { renamed.end(node) }

    /// The names of a file that presenters know from events.
    func toldNames(of node: Node) -> [NodeName] {
        guard let former = renamed.name(of: node) else { return node.names }
        return [former] + node.otherNames
    }

    /// Whether presenters know a file by this name from events. May be called under the engine's lock.
    func isTold(_ name: NodeName, of node: Node) -> Bool {
        guard let former = renamed.name(of: node) else { return node.has(name.name, in: name.directory) }
        return former.directory === name.directory && former.name == name.name
            || node.otherNames.contains { $0.directory === name.directory && $0.name == name.name }
    }

    /// Returns the number by which the engine knows a directory. If the engine does not know the directory yet, places it.
    private func ensure(_ directory: Node) -> ItemID {
        let (registeredItem, item) = directory.registration
        if registeredItem == item { return item }
        forgottenDirectories.forgetEach { engine.forget($0) }
        // The directories above are placed before this directory, from the top down. A recursion might be too deep, because
        // users decide how deep a tree is.
        for above in unplaced(above: directory).reversed() {
            enter(above, as: above.item)
        }
        enter(directory, as: item)
        return item
    }

    /// The directories above this directory that the engine does not know, the nearest first.
    private func unplaced(above directory: Node) -> [Node] {
        var found: [Node] = []
        while let parent = (found.last ?? directory).parent {
            if parent.isRegistered { break }
            found.append(parent)
        }
        return found
    }

    private func enter(_ directory: Node, as item: ItemID) {
        while true {
            let (parent, changes) = directory.packageState
            let above = parent?.item
            forgottenDirectories.noteKnown(item)
            engine.place(item, DirectoryInfo(in: above, isPackage: PackageDetection.isPackage(directory)))
            // While the engine was told about the directory, another thread may have renamed the directory or made it a
            // package. If so, the directory is placed again.
            if directory.confirmRegistration(as: item, in: parent, after: changes) { return }
        }
    }

    /// Tells the engine that a directory may have become a package, or stopped being a package.
    func reconsider(_ directory: Node) {
        guard directory.kind == S_IFDIR else { return }
        if let registeredItem = directory.notePackageChange() { enter(directory, as: registeredItem) }
    }

    /// Whether a directory is a package or is in a package. False while no program uses the control socket.
    func isInPackage(_ directory: Node) -> Bool {
        engine.hasAwareClients && engine.isInPackage(directory.item, at: place(of: directory))
    }
}

/// The numbers of the directories that the engine knows. For some of these directories, the node has ended.
///
/// A node may end on any thread and under any lock, and the engine may not be called there. So the directory's number is added
/// to this table, and the engine forgets the directory later. Until then no directory gets the number, not even the same
/// directory when it is found again.
final class ForgottenDirectories: Sendable {
    private struct State {
        var known: Set<ItemID> = []
        var forgottenDirectories: [ItemID] = []
    }

    private let state = Mutex(State())

    /// Notes that the engine is about to know this directory.
    func noteKnown(_ item: ItemID) { _ = state.withLock { $0.known.insert(item) } }
    func isKnown(_ item: ItemID) -> Bool { state.withLock { $0.known.contains(item) } }
    func add(_ item: ItemID) { state.withLock { $0.forgottenDirectories.append(item) } }

    /// Calls the closure, without a lock, for each directory that has lost its node.
    func forgetEach(_ forget: (ItemID) -> Void) {
        let items = state.withLock { state in
            defer { state.forgottenDirectories = [] }
            return state.forgottenDirectories
        }
        guard !items.isEmpty else { return }
        for item in items { forget(item) }
        state.withLock { $0.known.subtract(items) }
    }
}

/// Files and directories that are being renamed, with the names by which presenters still know them.
///
/// Until presenters get the event for a directory's rename, other events in the directory contain the former path. Likewise, a
/// change of a file is reported under the file's former name. An event with the new name would show presenters that this name
/// exists, before the rename is reported.
private final class UnreportedRenames: Sendable {
    private let former = Mutex<[NodeID: NodeName]>([:])
    private let count = Atomic<Int>(0)

    func begin(_ node: Node, _ name: NodeName) {
        former.withLock { former in
            if former[node.id] == nil { former[node.id] = name }
            count.store(former.count, ordering: .sequentiallyConsistent)
        }
    }

    func end(_ node: Node) {
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return }
        let ended: NodeName? = former.withLock { former in
            defer { count.store(former.count, ordering: .sequentiallyConsistent) }
            return former.removeValue(forKey: node.id)
        }
        withExtendedLifetime(ended) {}
    }

    func name(of node: Node) -> NodeName? {
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return nil }
        return former.withLock { $0[node.id] }
    }

    func path(of name: NameBytes, in directory: Node) -> [UInt8] {
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return directory.path(of: name) }
        let former = self.former.withLock { $0 }
        var names = [name]
        var next = directory
        while !next.isRoot {
            let (name, parent, _) = next.location
            let known = former[next.id]
            guard let above = known?.directory ?? parent else { break }
            names.append(known?.name ?? name)
            next = above
        }
        return Array(names.reversed().map(\.bytes).joined(separator: [UInt8(ascii: "/")]))
    }
}

/// The names that were part of events, as long as a presenter may read these events.
///
/// Presenters of a directory get their events at the end of an access session. By then, a file may have another name or none.
/// The number of a name is computed from the name, so it stays valid if the cache forgets the name. Only the path in the
/// message is missing then.
private final class LinkNameCache: Sendable {
    private struct State {
        var recent: [LinkID: NodeName] = [:]
        var older: [LinkID: NodeName] = [:]
    }

    /// The cache remembers at least this number of names. An access session collects at most 256 items before it reports them.
    private static let capacity = 8192
    private let state = Mutex(State())

    func note(_ name: NameBytes, in directory: Node) -> LinkID {
        let link = Self.number(of: name, in: directory)
        // A forgotten name may contain the last reference to a directory. So the forgotten names are released when the lock is
        // no longer held.
        let forgotten: [LinkID: NodeName] = state.withLock { state in
            guard state.recent.updateValue(NodeName(name: name, directory: directory), forKey: link) == nil,
                state.recent.count >= Self.capacity
            else { return [:] }
            let forgotten = state.older
            (state.older, state.recent) = (state.recent, [:])
            return forgotten
        }
        withExtendedLifetime(forgotten) {}
        return link
    }

    func entry(of link: LinkID) -> NodeName? { state.withLock { $0.recent[link] ?? $0.older[link] } }

    /// The hash FNV-1a of the directory's number and the name.
    private static func number(of name: NameBytes, in directory: Node) -> LinkID {
        let start = (0xCBF2_9CE4_8422_2325 ^ directory.id.rawValue) &* 0x100_0000_01B3
        let hash = name.bytes.reduce(start) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        // The highest number means "no link".
        return LinkID(hash == .max ? 0 : hash)
    }
}
