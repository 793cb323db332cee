// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// A tracked document, whatever file it has at the moment.
///
///     at a node ◀──a file takes its name──▶ awaiting its name
///         ╲──another tracked document takes it over──▶ its alias
///
/// Shared by all finders. ``DocumentTable`` alone changes it, under its lock.
///
/// | transition | function |
/// |---|---|
/// | between a node and awaited names | ``move(to:)`` |
/// | to an alias | ``becomeAlias(of:)`` |
/// | another document takes its item over | ``becomeItem(_:)`` |
///
/// 1. An alias never becomes a document again. It is in no table, and answers as its successor does.
/// 2. An alias counts as one finder of its successor, until its own last finder is gone.
/// 3. The retained nodes are those from its location to the root; each is retained once.
final class TrackedFile: TrackedDocument {
    enum Location: Sendable {
        case node(Node)
        /// No file has the document's name, and perhaps no directory has the names before the last. `former` had the
        /// name, and may only have been renamed.
        case names([NameBytes], in: Node, former: Node?)
    }

    /// The state of a file, which tells whether it has unreported changes.
    struct FileSnapshot: Equatable, Sendable {
        let file: FileKey
        let stamp: Stamp
        let linkCount: UInt64

        init(_ status: FileStatus) {
            file = FileKey(status)
            stamp = Stamp(status)
            linkCount = status.linkCount
        }
    }

    private struct State {
        var item: ItemID
        var location: Location
        /// The state at the last event or when tracking began; nil before the first observation.
        var snapshot: FileSnapshot?
        /// The number of finders, aliases included.
        var finders = 1
        /// The nodes from its place to the root, which the kernel's forgetting must not release.
        var retainedNodes: [Node] = []
        /// The document that it has become part of.
        var successor: TrackedFile?
    }

    private let state: Mutex<State>
    private let documents: DocumentTable

    init(_ item: ItemID, at place: Location, in documents: DocumentTable) {
        state = Mutex(State(item: item, location: place))
        self.documents = documents
    }

    var item: ItemID {
        let (item, successor) = state.withLock { ($0.item, $0.successor) }
        return successor?.item ?? item
    }

    var path: [UInt8] {
        let (place, successor) = state.withLock { ($0.location, $0.successor) }
        return successor?.path ?? place.path
    }

    var place: Coordination.Place {
        let (place, successor) = state.withLock { ($0.location, $0.successor) }
        if let successor { return successor.place }
        return switch place {
        case .node(let node): documents.places.place(of: node)
        // If the last name is awaited together with its directory, its final place is unknown.
        case .names(_, let directory, _): documents.places.place(in: directory)
        }
    }

    func release() { documents.release(self) }

    func invalidateAttributes() {
        let (place, successor) = state.withLock { ($0.location, $0.successor) }
        if let successor { return successor.invalidateAttributes() }
        // A file that appears under an awaited name is observed then.
        if case .node(let node) = place { node.invalidateAttributes() }
    }
}

// Called by ``DocumentTable``, under its lock.
extension TrackedFile {
    var location: Location { state.withLock { $0.location } }
    func move(to location: Location) { state.withLock { $0.location = location } }

    /// Its own item, even after it has become an alias.
    var ownItem: ItemID { state.withLock { $0.item } }
    func becomeItem(_ item: ItemID) { state.withLock { $0.item = item } }
    func becomeAlias(of successor: TrackedFile) { state.withLock { $0.successor = successor } }

    func addFinder() { state.withLock { $0.finders += 1 } }
    func removeFinder() -> (isLast: Bool, item: ItemID, successor: TrackedFile?) {
        state.withLock { state in
            state.finders -= 1
            return (state.finders == 0, state.item, state.successor)
        }
    }

    var snapshot: FileSnapshot? { state.withLock { $0.snapshot } }
    func changeSnapshot(_ body: (inout FileSnapshot?) -> Void) { state.withLock { body(&$0.snapshot) } }

    func setRetainedNodes(_ nodes: [Node]) { state.withLock { $0.retainedNodes = nodes } }
    /// Returns the nodes that need not be held any more.
    func takeRetainedNodes() -> [Node] {
        state.withLock { state in
            defer { state.retainedNodes = [] }
            return state.retainedNodes
        }
    }
}

extension TrackedFile.Location {
    var path: [UInt8] {
        switch self {
        case .node(let node): node.path
        case .names(let names, let directory, _):
            names.reduce(directory.path) { path, name in
                path.isEmpty ? name.bytes : path + [UInt8(ascii: "/")] + name.bytes
            }
        }
    }

    /// The name that is awaited next.
    var awaited: EntryName? {
        guard case .names(let names, let directory, _) = self, let name = names.first else { return nil }
        return EntryName(name, in: directory)
    }

    /// Whether the next awaited name is the document's own.
    var isAtLast: Bool { if case .names(let names, _, _) = self { names.count == 1 } else { false } }

    /// The node, or the directory of the awaited name.
    var anchor: Node {
        switch self {
        case .node(let node): node
        case .names(_, let directory, _): directory
        }
    }

    /// The file that had the awaited name before; nil if no program waits for it under that name.
    var former: Node? {
        guard case .names(_, _, let former) = self else { return nil }
        return former
    }
}
