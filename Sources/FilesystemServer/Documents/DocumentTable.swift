// SPDX-License-Identifier: Apache-2.0
import Coordination
import Glibc
import LinuxSystem
import Synchronization

/// The tracked documents. A document is tracked if a presenter or another client of the control socket has found it by path.
///
/// Invariants:
/// - I1. `files[i]` has the item `i`, and is no alias. A document has at most one file in this table.
/// - I2. A tracked file that waits for a name is in `awaited` under this name.
/// - I3. A look-up gives a file to a waiting document only with a valid look; see ``AwaitedNames``.
/// - I4. Each node from a tracked file's place up to the root is held by one look-up. So the node stays when the kernel forgets
///   its inode.
///
/// **Lock rule.** The mutex covers the table and the state of its files. It is taken before the locks of nodes and of the node
/// table. Under the mutex, no system call is made and the engine is not called.
package final class DocumentTable: Sendable {
    fileprivate struct State {
        var files: [ItemID: TrackedFile] = [:]
        var awaited = AwaitedNames<EntryName, TrackedFile>()
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

    /// Whether no document is tracked. Requests check this before they use the table, because this check takes no mutex.
    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }
    /// True if each tracked document has a file. A document has no file while its name is missing; it then waits for a new file
    /// with this name.
    var awaitsNothing: Bool { awaitedCount.load(ordering: .relaxed) == 0 }

    /// Tracks a document for one more finder: a presenter or client that has found the document. Each finder calls
    /// ``release(_:)`` later.
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

    /// Counts one more finder (a presenter or client) of a document that is already tracked. Returns nil if the document is not
    /// tracked.
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
        // An alias counts as one finder of its successor, the document that the alias has become. Now the alias is
        // gone, so the successor has one finder less.
        if let successor { release(successor) }
    }

    func isTracked(_ item: ItemID) -> Bool { !isEmpty && state.withLock { $0.files[item] != nil } }

    /// The document that is waiting for a file with this name; nil if there is none.
    func awaiting(_ name: NameBytes, in directory: Node) -> ItemID? {
        guard !awaitsNothing else { return nil }
        return state.withLock { $0.waiter(for: EntryName(name, in: directory)) }?.item
    }

    /// The place of a tracked document; nil if the document is not tracked.
    func place(of item: ItemID) -> TrackedFile.Location? {
        guard !isEmpty else { return nil }
        return state.withLock { $0.files[item] }?.location
    }

    /// The state (size and times) that a document's file had when presenters last got an event for it.
    func snapshot(of item: ItemID) -> TrackedFile.FileSnapshot? {
        guard !isEmpty else { return nil }
        return state.withLock { $0.files[item]?.snapshot }
    }

    /// Notes that events for all changes up to this state of the file were sent to the document's presenters.
    func noteReported(_ item: ItemID, as snapshot: TrackedFile.FileSnapshot) {
        updateSnapshot(of: item) { $0 = snapshot }
    }

    /// Notes the state of a document's file when one more presenter or client has found the document. For other presenters,
    /// events for changes since the stored state may still be missing. So the stored state is replaced only if it belongs to
    /// another file.
    func noteFound(_ item: ItemID, as snapshot: TrackedFile.FileSnapshot) {
        updateSnapshot(of: item) { known in if known?.file != snapshot.file { known = snapshot } }
    }

    /// Notes the state of a document's file after its names have changed. If the contents have changed as well, the stored
    /// state stays.
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

    /// The places of all tracked documents, in no order.
    var allPlaces: [TrackedFile.Location] {
        guard !isEmpty else { return [] }
        return state.withLock { Array($0.files.values) }.map(\.location)
    }

    /// Notes that a document has lost the file of `node`, and waits for another file with its name. Returns false if the document
    /// is not tracked, or is not at the node.
    @discardableResult
    func vacate(
        _ item: ItemID, at node: Node, awaiting name: NameBytes, in directory: Node, former: Node? = nil
    ) -> Bool {
        guard !isEmpty else { return false }
        return change { state, released in
            guard let file = state.files[item], case .node(let known) = file.location, known === node else {
                return false
            }
            released += move(file, to: .names([name], in: directory, former: former), in: &state)
            return true
        }
    }

    /// Moves a waiting document to a node, although no file has taken the name for which the document waits. Returns this name
    /// and its directory. Returns nil if the document waits for no name, or for the name of a directory above it.
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

    /// A look at a name before the status of its file is read; nil if no document waits for the name.
    func look(at name: NameBytes, in directory: Node) -> AwaitedLook? {
        guard !awaitsNothing else { return nil }
        return state.withLock { $0.awaited.look(at: EntryName(name, in: directory)) }
    }

    /// Ends the wait of a document for a name, because the file of `node` has taken the name. If two files take the name at the
    /// same time, only one of them becomes the document.
    ///
    /// `look` is the look of a look-up; nil if the kernel's lock on the directory keeps the name.
    func fill(
        _ name: NameBytes, in directory: Node, with node: Node, since look: AwaitedLook?
    ) -> FillResult {
        guard !awaitsNothing else { return .notAwaited }
        return change { state, released in
            if let look, !state.awaited.isValid(look) { return .outdated }
            guard let file = state.waiter(for: EntryName(name, in: directory)) else { return .notAwaited }
            released += move(file, to: .node(node), in: &state)
            return .filled(file.ownItem)
        }
    }

    /// Moves a document that waits for a file to a node. Returns false if the document is not waiting any more.
    func resolveAwaited(_ item: ItemID, at node: Node) -> Bool {
        change { state, released in
            guard let file = state.files[item], file.location.awaited != nil else {
                return false
            }
            released += move(file, to: .node(node), in: &state)
            return true
        }
    }

    /// Forgets the former file of a document that waits for a file with its name.
    func forgetFormer(of item: ItemID) {
        change { state, released in
            guard let file = state.files[item],
                case .names(let names, let directory, .some) = file.location
            else { return }
            released += move(file, to: .names(names, in: directory, former: nil), in: &state)
        }
    }

    /// Notes that a directory was removed. Some documents wait for a file in it. They now wait first for a new directory with
    /// the name of the removed directory.
    func noteDirectoryLost(_ directory: Node, called name: NameBytes, in parent: Node) {
        guard !awaitsNothing else { return }
        change { state, released in
            for file in state.awaited.all {
                guard case .names(let names, let place, let former) = file.location,
                    place === directory
                else { continue }
                released += move(file, to: .names([name] + names, in: parent, former: former), in: &state)
            }
        }
    }

    /// Notes that a directory was found or made. Some documents waited for this directory. They now wait for the next name on
    /// their path, which is in the directory. Returns these next names; nil if the look is not valid.
    func noteDirectoryFound(
        _ directory: Node, called name: NameBytes, in parent: Node, since look: AwaitedLook?
    ) -> Set<NameBytes>? {
        guard !awaitsNothing else { return [] }
        return change { state, released in
            if let look, !state.awaited.isValid(look) { return nil }
            var next: Set<NameBytes> = []
            for file in state.awaited[EntryName(name, in: parent)] {
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

    /// Makes a node the document `item`. If the document `incoming` is tracked as well, its tracked file becomes an alias of
    /// the document `item`.
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
                // If the tracked file of `incoming` was at this node, `leave` has just marked the node as not tracked.
                node.setTracked(true)
            } else if let other {
                other.becomeItem(item)
                state.files[item] = other
                released += move(other, to: .node(node), in: &state)
            }
        }
    }

    /// Notes that a node has another name. Each document at the node or below it has another path now, and the nodes on that
    /// path are retained.
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

    /// Changes the table under the mutex. After the mutex is released, releases the nodes that the table does not need any
    /// more.
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

    /// Removes a tracked file from its place in the table. Returns the nodes that the file need not retain any more.
    private func leave(_ file: TrackedFile, in state: inout State) -> [Node] {
        let place = file.location
        if let name = place.awaited { state.awaited.remove(file, at: name) }
        if case .node(let node) = place { node.setTracked(false) }
        return file.takeRetainedNodes()
    }

    private func settleDown(_ file: TrackedFile, in state: inout State) {
        let place = file.location
        if let name = place.awaited { state.awaited.insert(file, at: name) }
        if case .node(let node) = place { node.setTracked(true) }
        hold(file)
    }

    /// Retains the nodes from a tracked file's place up to the root.
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
    /// The tracked file that waits for a file with this name. A tracked file that waits for a directory with this name is not
    /// returned.
    fileprivate func waiter(for name: EntryName) -> TrackedFile? {
        awaited[name].first { $0.location.isAtLast }
    }
}

typealias AwaitedLook = AwaitedNames<EntryName, TrackedFile>.Look

/// The answer to a file that was found or made under a name.
enum FillResult {
    /// The file has become this document.
    case filled(ItemID)
    /// No document waits for a file with the name.
    case notAwaited
    /// The look of the look-up is not valid any more. The look-up must read the name again.
    case outdated
}
