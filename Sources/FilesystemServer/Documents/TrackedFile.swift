// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// A document that somebody follows, whichever file it is just now.
///
///     at a node ◀──a file takes its name──▶ awaiting its name
///         ╲──another tracked document takes it over──▶ an alias of that one
///
/// Shared by all who found it. Changed by ``DocumentTable`` only, under its lock.
final class TrackedFile: TrackedDocument {
    enum Location: Sendable {
        case node(Node)
        /// No file has the document's name, and maybe no directory the names before the last. `former` had
        /// it, and may have been renamed away only.
        case names([NameBytes], in: Node, former: Node?)
    }

    /// What a file looks like, which tells whether something was done to it that nobody has seen.
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

    struct State {
        var item: ItemID
        var place: Location
        /// As it was when those who follow it began to, or heard of it last; nil while nobody has looked.
        var snapshot: FileSnapshot?
        /// How many found it, aliases included.
        var finders = 1
        /// The nodes on its way to the root that the kernel must not make us forget.
        var retainedNodes: [Node] = []
        /// The document it has become part of.
        var successor: TrackedFile?
    }

    let state: Mutex<State>
    private let documents: DocumentTable

    init(_ item: ItemID, at place: Location, in documents: DocumentTable) {
        state = Mutex(State(item: item, place: place))
        self.documents = documents
    }

    var item: ItemID {
        let (item, successor) = state.withLock { ($0.item, $0.successor) }
        return successor?.item ?? item
    }

    var path: [UInt8] {
        let (place, successor) = state.withLock { ($0.place, $0.successor) }
        return successor?.path ?? place.path
    }

    var place: Coordination.Place {
        let (place, successor) = state.withLock { ($0.place, $0.successor) }
        if let successor { return successor.place }
        return switch place {
        case .node(let node): documents.places.place(of: node)
        // Of the last name, if it is awaited together with its directory, nobody knows where that will be.
        case .names(_, let directory, _): documents.places.place(in: directory)
        }
    }

    func release() { documents.release(self) }

    func invalidateAttributes() {
        let (place, successor) = state.withLock { ($0.place, $0.successor) }
        if let successor { return successor.invalidateAttributes() }
        // What appears under a name is looked at when it does.
        if case .node(let node) = place { node.invalidateAttributes() }
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
    var awaited: DocumentTable.EntryName? {
        guard case .names(let names, let directory, _) = self, let name = names.first else { return nil }
        return DocumentTable.EntryName(name, in: directory)
    }

    /// Whether the next name that is awaited is the document's own.
    var isAtLast: Bool { if case .names(let names, _, _) = self { names.count == 1 } else { false } }

    /// The node, or the directory of the awaited name.
    var anchor: Node {
        switch self {
        case .node(let node): node
        case .names(_, let directory, _): directory
        }
    }

    /// The file that had the awaited name, as long as others look for it there.
    var former: Node? {
        guard case .names(_, _, let former) = self else { return nil }
        return former
    }
}

extension Node {
    /// The path of a name in this directory.
    func path(of name: NameBytes) -> [UInt8] {
        isRoot ? name.bytes : path + [UInt8(ascii: "/")] + name.bytes
    }
}
