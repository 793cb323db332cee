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
/// Shared by all who found it. Changed by ``Documents`` only, under its lock.
final class TrackedFile: TrackedDocument {
    enum Place: Sendable {
        case node(Node)
        /// No file has the document's name. `former` had it, and may have been renamed away only.
        case name(NameBytes, in: Node, former: Node?)
    }

    struct State {
        var item: ItemID
        var place: Place
        /// How many found it, aliases included.
        var finders = 1
        /// The nodes on its way to the root that the kernel must not make us forget.
        var held: [Node] = []
        /// The document it has become part of.
        var successor: TrackedFile?
    }

    let state: Mutex<State>
    private let documents: Documents

    init(_ item: ItemID, at place: Place, in documents: Documents) {
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

    func release() { documents.release(self) }
}

extension TrackedFile.Place {
    var path: [UInt8] {
        switch self {
        case .node(let node): node.path
        case .name(let name, let directory, _): directory.path(of: name)
        }
    }

    /// The name that is awaited.
    var awaited: Documents.Name? {
        guard case .name(let name, let directory, _) = self else { return nil }
        return Documents.Name(name, in: directory)
    }

    /// The node, or the directory of the awaited name.
    var anchor: Node {
        switch self {
        case .node(let node): node
        case .name(_, let directory, _): directory
        }
    }

    /// The file that had the awaited name, as long as others look for it there.
    var former: Node? {
        guard case .name(_, _, let former) = self else { return nil }
        return former
    }
}

extension Node {
    /// The path of a name in this directory.
    func path(of name: NameBytes) -> [UInt8] {
        isRoot ? name.bytes : path + [UInt8(ascii: "/")] + name.bytes
    }
}
