// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// A tracked document: a presenter or client has found it by path. It may have a file, or wait for one.
///
///     at a node ◀──a file takes its name──▶ awaiting its name
///         ╲──another tracked document takes it over──▶ its alias
///
/// All finders of the document share this object. Only ``DocumentTable`` changes it, under its lock.
///
/// | transition | function |
/// |---|---|
/// | between a node and awaited names | ``move(to:)`` |
/// | to an alias | ``becomeAlias(of:)`` |
/// | another document takes its item over | ``becomeItem(_:)`` |
///
/// 1. An alias never becomes a document again. It is in no table, and answers with the values of its successor.
/// 2. An alias counts as one finder of its successor, until the alias's own last finder is gone.
/// 3. The retained nodes are those from the document's location up to the root; each is retained once.
final class TrackedFile: TrackedDocument {
    enum Location: Sendable {
        case node(Node)
        /// No file has the document's name. If `names` has several names, all but the last are directories that do not exist
        /// either. `former` is the file that had the name; it may still exist under another name.
        case names([NameBytes], in: Node, former: Node?)
    }

    /// The state of a document's file. If the file's present state differs, presenters have not got all events yet.
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
        /// The state of the file when the last event was sent, or when tracking began. Nil until the file was first observed.
        var snapshot: FileSnapshot?
        /// The number of presenters and clients that have found the document, plus the number of the document's
        /// aliases.
        var finders = 1
        /// The nodes from the document's location to the root. They stay in the node table even if the kernel forgets their
        /// inodes.
        var retainedNodes: [Node] = []
        /// The document of which this object is an alias, because both documents have become one; nil if this object is
        /// no alias.
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
        // If directories above the document are missing as well, the document's place is the nearest existing directory above
        // it.
        case .names(_, let directory, _): documents.places.place(in: directory)
        }
    }

    /// The node of the document's file; nil while the document has no file.
    var node: Node? {
        let (place, successor) = state.withLock { ($0.location, $0.successor) }
        if let successor { return successor.node }
        if case .node(let node) = place { return node }
        return nil
    }

    func release() { documents.release(self) }

    func invalidateAttributes() {
        let (place, successor) = state.withLock { ($0.location, $0.successor) }
        if let successor { return successor.invalidateAttributes() }
        // If the document has no file, there are no cached attributes: a file that gets the name later is looked up.
        if case .node(let node) = place { node.invalidateAttributes() }
    }
}

// Only ``DocumentTable`` calls these functions, under its lock.
extension TrackedFile {
    var location: Location { state.withLock { $0.location } }
    func move(to location: Location) { state.withLock { $0.location = location } }

    /// The item of this object itself, even if it has become an alias.
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
    /// Returns the nodes that the document has retained, and retains them no longer.
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

    /// The next name for which the document waits: its own name, or that of a missing directory above it.
    var awaited: EntryName? {
        guard case .names(let names, let directory, _) = self, let name = names.first else { return nil }
        return EntryName(name, in: directory)
    }

    /// Whether the document waits for a file with its own name. False if it waits for a missing directory above it.
    var isAtLast: Bool { if case .names(let names, _, _) = self { names.count == 1 } else { false } }

    /// The document's node, or the directory of the name for which it waits.
    var anchor: Node {
        switch self {
        case .node(let node): node
        case .names(_, let directory, _): directory
        }
    }

    /// The file that had the document's name before; nil if there is none, or the document is at a node.
    var former: Node? {
        guard case .names(_, _, let former) = self else { return nil }
        return former
    }
}
