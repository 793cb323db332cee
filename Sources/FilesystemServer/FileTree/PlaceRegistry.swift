// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// The places of items, as the engine knows them.
///
/// A directory is *placed*, which tells the engine of it, before an item in it is named for the first time. It stays
/// placed while its node lives, because a claim on a file may contend with a later move of the directory. Only the
/// first claim in a directory pays for this.
final class PlaceRegistry: Sendable {
    private let engine: Engine
    private let forgottenDirectories: ForgottenDirectories
    private let names = LinkNameCache()
    private let renamed = UnreportedRenames()

    init(engine: Engine, forgottenDirectories: ForgottenDirectories) {
        self.engine = engine
        self.forgottenDirectories = forgottenDirectories
    }

    /// The place where a file or directory is known to be.
    func place(of node: Node) -> Place {
        if node.kind == S_IFDIR { _ = ensure(node) }
        return node.parent.map { place(in: $0) } ?? Place()
    }

    func place(in directory: Node) -> Place { Place(in: ensure(directory)) }

    /// The place of a name that an event reports; the name is remembered for later readers of the event.
    func place(_ name: NameBytes, in directory: Node) -> Place {
        Place(in: ensure(directory), link: names.note(name, in: directory))
    }

    /// The path of a name that an event reported.
    func path(of link: LinkID) -> [UInt8]? {
        names.entry(of: link).map { renamed.path(of: $0.name, in: $0.directory) }
    }

    /// A file or a directory is about to get another name, which is reported to presenters later.
    func beginRename(of node: Node, from name: NodeName) { renamed.begin(node, name) }
    /// The rename is reported now. May be called under the engine's lock.
    func endRename(of node: Node) { renamed.end(node) }

    /// The names of a file, as presenters know them.
    func toldNames(of node: Node) -> [NodeName] {
        guard let former = renamed.name(of: node) else { return node.names }
        return [former] + node.otherNames
    }

    /// Whether presenters know a file by a name. May be called under the engine's lock.
    func isTold(_ name: NodeName, of node: Node) -> Bool {
        guard let former = renamed.name(of: node) else { return node.has(name.name, in: name.directory) }
        return former.directory === name.directory && former.name == name.name
            || node.otherNames.contains { $0.directory === name.directory && $0.name == name.name }
    }

    /// The number by which the engine knows a directory.
    private func ensure(_ directory: Node) -> ItemID {
        let (registeredItem, item) = directory.registration
        if registeredItem == item { return item }
        forgottenDirectories.forgetEach { engine.forget($0) }
        // From the top and without recursion, because a tree's owner chooses its depth.
        for above in unplaced(above: directory).reversed() {
            enter(above, as: above.item)
        }
        enter(directory, as: item)
        return item
    }

    /// The directories above a directory that the engine does not know, the nearest first.
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
            // A rename in between, or a change to a package, found no placed directory to correct.
            if directory.confirmRegistration(as: item, in: parent, after: changes) { return }
        }
    }

    /// A directory may have become a package, or be none any longer.
    func reconsider(_ directory: Node) {
        guard directory.kind == S_IFDIR else { return }
        if let registeredItem = directory.notePackageChange() { enter(directory, as: registeredItem) }
    }

    /// Whether a directory belongs to a package that other programs may use.
    func isInPackage(_ directory: Node) -> Bool {
        engine.hasAwareClients && engine.isInPackage(directory.item, at: place(of: directory))
    }
}

/// Numbers of directories that the engine knows, and those without a node among them.
///
/// A node may end on any thread and under any lock, where the engine must not be called. Until the engine has forgotten
/// the number, no directory gets it, not even the same directory when it is found again.
final class ForgottenDirectories: Sendable {
    private struct State {
        var known: Set<ItemID> = []
        var forgottenDirectories: [ItemID] = []
    }

    private let state = Mutex(State())

    /// Notes that the engine is told of a directory.
    func noteKnown(_ item: ItemID) { _ = state.withLock { $0.known.insert(item) } }
    func isKnown(_ item: ItemID) -> Bool { state.withLock { $0.known.contains(item) } }
    func add(_ item: ItemID) { state.withLock { $0.forgottenDirectories.append(item) } }

    /// Passes each forgotten directory to the closure, without a lock.
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
/// An event in a directory before its rename is reported has the former path. A change of a file is reported under its
/// former name as well: the new name would tell that it exists, before the rename is reported.
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

/// The names that events reported, as long as a presenter may read the events.
///
/// Presenters of a directory are told at the end of an access session, when a file may have another name, or none. A
/// name's number follows from the name, so forgetting it costs only the path in a message.
private final class LinkNameCache: Sendable {
    private struct State {
        var recent: [LinkID: NodeName] = [:]
        var older: [LinkID: NodeName] = [:]
    }

    /// How many names are remembered at least; a session collects 256 items at most before it reports them.
    private static let capacity = 8192
    private let state = Mutex(State())

    func note(_ name: NameBytes, in directory: Node) -> LinkID {
        let link = Self.number(of: name, in: directory)
        // A forgotten name may hold the last reference to a directory.
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

    /// FNV-1a over the directory's number and the name.
    private static func number(of name: NameBytes, in directory: Node) -> LinkID {
        let start = (0xCBF2_9CE4_8422_2325 ^ directory.id.rawValue) &* 0x100_0000_01B3
        let hash = name.bytes.reduce(start) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        // The highest number means none.
        return LinkID(hash == .max ? 0 : hash)
    }
}
