// SPDX-License-Identifier: Apache-2.0
import Coordination
import Glibc
import LinuxSystem
import Synchronization

/// The tracked documents: those that a presenter or client has found.
///
/// Invariants:
/// - I1. `files[i]` has item i and is no alias. A document has at most one file here.
/// - I2. A file that awaits a name is in `awaited` under that name.
/// - I3. The nodes from a file's place up to the root are held by a lookup each, so that the kernel forgetting them
///   changes nothing.
///
/// **Lock rule.** The mutex covers the table and the state of its files; it is taken before the locks of nodes and of
/// their table. No system call is made under it, and the engine is not called under it.
package final class DocumentTable: Sendable {
    fileprivate struct State {
        var files: [ItemID: TrackedFile] = [:]
        var awaited: [EntryName: [TrackedFile]] = [:]
    }

    private let nodes: NodeTable
    let places: PlaceRegistry
    private let state = Mutex(State())
    private let count = Atomic<Int>(0)
    private let awaitedCount = Atomic<Int>(0)

    init(nodes: NodeTable, places: PlaceRegistry) {
        self.nodes = nodes
        self.places = places
    }

    /// Whether no document is tracked, for the fast paths.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }
    /// Whether no document waits for a file under its name.
    var awaitsNothing: Bool { awaitedCount.load(ordering: .relaxed) == 0 }

    /// Tracks a document from now on, for one more finder.
    func track(_ item: ItemID, at place: TrackedFile.Location) -> TrackedFile {
        change { state, _ in
            let known = state.files[item] ?? place.awaited.flatMap { state.waiter(for: $0) }
            if let known {
                known.addFinder()
                return known
            }
            let file = TrackedFile(item, at: place, in: self)
            state.files[item] = file
            settleDown(file, in: &state)
            return file
        }
    }

    /// Adds a finder to a document that is tracked already.
    func follow(_ item: ItemID) -> TrackedFile? {
        state.withLock { state in
            guard let file = state.files[item] else { return nil }
            file.addFinder()
            return file
        }
    }

    func release(_ file: TrackedFile) {
        let successor: TrackedFile? = change { state, released in
            let (isLast, item, successor) = file.removeFinder()
            guard isLast else { return nil }
            if let successor { return successor }
            state.files[item] = nil
            state.files.shrinkIfSparse()
            released += leave(file, in: &state)
            return nil
        }
        // An alias counts as a finder of the document that it belongs to.
        if let successor { release(successor) }
    }

    func isTracked(_ item: ItemID) -> Bool { !isEmpty && state.withLock { $0.files[item] != nil } }

    /// The document that waits for a file of this name.
    func awaiting(_ name: NameBytes, in directory: Node) -> ItemID? {
        guard !awaitsNothing else { return nil }
        return state.withLock { $0.waiter(for: EntryName(name, in: directory)) }?.item
    }

    /// The place of a tracked document.
    func place(of item: ItemID) -> TrackedFile.Location? {
        guard !isEmpty else { return nil }
        return state.withLock { $0.files[item] }?.location
    }

    /// The snapshot of a document at the last event for its presenters.
    func snapshot(of item: ItemID) -> TrackedFile.FileSnapshot? {
        guard !isEmpty else { return nil }
        return state.withLock { $0.files[item]?.snapshot }
    }

    /// Notes that the presenters of a document are told of all changes up to this snapshot.
    func noteReported(_ item: ItemID, as snapshot: TrackedFile.FileSnapshot) {
        updateSnapshot(of: item) { $0 = snapshot }
    }

    /// Notes a further finder of a document. Other finders may have unreported events, so a snapshot of the same file
    /// stays.
    func noteFound(_ item: ItemID, as snapshot: TrackedFile.FileSnapshot) {
        updateSnapshot(of: item) { known in if known?.file != snapshot.file { known = snapshot } }
    }

    /// Notes that a document's names changed: only the last of its times is different.
    func noteRenamed(_ item: ItemID, as snapshot: TrackedFile.FileSnapshot) {
        updateSnapshot(of: item) { known in
            guard let former = known, former.file == snapshot.file,
                former.stamp.hasSameContents(as: snapshot.stamp)
            else { return }
            known = snapshot
        }
    }

    private func updateSnapshot(of item: ItemID, _ body: (inout TrackedFile.FileSnapshot?) -> Void) {
        guard !isEmpty else { return }
        state.withLock { state in
            guard let file = state.files[item] else { return }
            file.changeSnapshot(body)
        }
    }

    /// The places of all tracked documents.
    var allPlaces: [TrackedFile.Location] {
        guard !isEmpty else { return [] }
        return state.withLock { Array($0.files.values) }.map(\.location)
    }

    /// A document has lost its file, and waits for another file under its name.
    func vacate(_ item: ItemID, awaiting name: NameBytes, in directory: Node, former: Node? = nil) {
        guard !isEmpty else { return }
        change { state, released in
            guard let file = state.files[item] else { return }
            released += move(file, to: .names([name], in: directory, former: former), in: &state)
        }
    }

    /// Moves a document that waits for its own name to a node, whatever file takes the name later. Returns the name
    /// that was awaited; nil if it was not.
    func redirect(_ item: ItemID, to node: Node) -> (name: NameBytes, directory: Node)? {
        change { state, released in
            guard let file = state.files[item],
                case .names(let names, let directory, _) = file.location,
                let name = names.last, names.count == 1
            else { return nil }
            released += move(file, to: .node(node), in: &state)
            return (name, directory)
        }
    }

    /// Fills a name under which a document waits: the document is at the node from now on. Returns the document; of two
    /// files that come at once only one becomes it.
    func fill(_ name: NameBytes, in directory: Node, with node: Node) -> ItemID? {
        guard !awaitsNothing else { return nil }
        return change { state, released in
            guard let file = state.waiter(for: EntryName(name, in: directory)) else { return nil }
            released += move(file, to: .node(node), in: &state)
            return file.ownItem
        }
    }

    /// Moves a document that waits for a file to a node. Returns false if it waits no longer.
    func resolveAwaited(_ item: ItemID, at node: Node) -> Bool {
        change { state, released in
            guard let file = state.files[item], file.location.awaited != nil else {
                return false
            }
            released += move(file, to: .node(node), in: &state)
            return true
        }
    }

    /// Forgets the former file of a document that waits for its name.
    func forgetFormer(of item: ItemID) {
        change { state, released in
            guard let file = state.files[item],
                case .names(let names, let directory, .some) = file.location
            else { return }
            released += move(file, to: .names(names, in: directory, former: nil), in: &state)
        }
    }

    /// A directory is gone: names awaited in it wait for another directory under its name first.
    func noteDirectoryLost(_ directory: Node, called name: NameBytes, in parent: Node) {
        guard !awaitsNothing else { return }
        change { state, released in
            for file in state.awaited.values.joined() {
                guard case .names(let names, let place, let former) = file.location,
                    place === directory
                else { continue }
                released += move(file, to: .names([name] + names, in: parent, former: former), in: &state)
            }
        }
    }

    /// A directory was found or made under a name: names that waited for it now wait in it. Returns those names.
    func noteDirectoryFound(_ directory: Node, called name: NameBytes, in parent: Node) -> Set<NameBytes> {
        guard !awaitsNothing else { return [] }
        return change { state, released in
            var next: Set<NameBytes> = []
            for file in state.awaited[EntryName(name, in: parent)] ?? [] {
                guard case .names(let names, _, let former) = file.location,
                    names.count > 1
                else { continue }
                let rest = Array(names.dropFirst())
                released += move(file, to: .names(rest, in: directory, former: former), in: &state)
                next.insert(rest[0])
            }
            return next
        }
    }

    /// A node is the document from now on; the tracked file of `incoming` becomes its alias.
    func merge(_ item: ItemID, at node: Node, with incoming: ItemID) {
        guard !isEmpty else { return }
        change { state, released in
            let other = item == incoming ? nil : state.files.removeValue(forKey: incoming)
            if let file = state.files[item] {
                released += move(file, to: .node(node), in: &state)
                guard let other else { return }
                released += leave(other, in: &state)
                other.becomeAlias(of: file)
                file.addFinder()
                // Both may have been at this node.
                node.setTracked(true)
            } else if let other {
                other.becomeItem(item)
                state.files[item] = other
                released += move(other, to: .node(node), in: &state)
            }
        }
    }

    /// A node has another name: holds the new path of each document tracked at it or below it.
    func noteMoved(_ node: Node) {
        guard !isEmpty else { return }
        change { state, released in
            let files: [TrackedFile]
            if node.kind == S_IFDIR {
                files = state.files.values.filter { $0.location.anchor.isBelow(node) }
            } else {
                files = state.files[node.item].map { [$0] } ?? []
            }
            for file in files {
                released += file.takeRetainedNodes()
                hold(file)
            }
        }
    }

    /// Changes the table, and releases unneeded nodes after the lock.
    private func change<Result>(_ body: (inout State, inout [Node]) -> Result) -> Result {
        var released: [Node] = []
        let result = state.withLock { state in
            let result = body(&state, &released)
            count.store(state.files.count, ordering: .sequentiallyConsistent)
            awaitedCount.store(state.awaited.count, ordering: .sequentiallyConsistent)
            return result
        }
        for node in released { nodes.forget(node.id, lookups: 1) }
        return result
    }

    private func move(_ file: TrackedFile, to place: TrackedFile.Location, in state: inout State) -> [Node] {
        let released = leave(file, in: &state)
        file.move(to: place)
        settleDown(file, in: &state)
        return released
    }

    /// Takes a file from its place; returns the nodes that need not be held any more.
    private func leave(_ file: TrackedFile, in state: inout State) -> [Node] {
        let place = file.location
        if let name = place.awaited {
            state.awaited[name]?.removeAll { $0 === file }
            if state.awaited[name]?.isEmpty == true { state.awaited[name] = nil }
        }
        if case .node(let node) = place { node.setTracked(false) }
        return file.takeRetainedNodes()
    }

    private func settleDown(_ file: TrackedFile, in state: inout State) {
        let place = file.location
        if let name = place.awaited { state.awaited[name, default: []].append(file) }
        if case .node(let node) = place { node.setTracked(true) }
        hold(file)
    }

    /// Holds the nodes from a file's place to the root.
    private func hold(_ file: TrackedFile) {
        let place = file.location
        var retainedNodes: [Node] = []
        if let former = place.former, nodes.retain(former) { retainedNodes.append(former) }
        var next: Node? = place.anchor
        while let node = next, !node.isRoot {
            if nodes.retain(node) { retainedNodes.append(node) }
            next = node.parent
        }
        file.setRetainedNodes(retainedNodes)
    }
}

extension DocumentTable.State {
    /// The document that waits for this as its last name, if there is one.
    fileprivate func waiter(for name: EntryName) -> TrackedFile? {
        awaited[name]?.first { $0.location.isAtLast }
    }
}
