// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Finds documents by their paths, for clients of the control socket.
///
/// The walk uses the source, not the mount, and takes none of the kernel's locks. So each item is checked again after
/// its node is known, and the walk begins again after a rename in between.
final class DocumentFinder: DocumentSource {
    let context: MountContext
    let tree: FileTree
    let events: DocumentEvents
    let identity: DocumentIdentity
    let engine: Engine
    let processes: ProcessResolver
    let nodes: NodeTable
    let places: PlaceRegistry
    let saves: SaveTracker
    let deferredDeletions: DeferredDeletions
    let documents: DocumentTable

    init(
        _ context: MountContext, _ tree: FileTree, _ saves: SaveTracker, _ events: DocumentEvents,
        _ identity: DocumentIdentity
    ) {
        self.context = context
        self.tree = tree
        self.events = events
        self.identity = identity
        engine = context.engine
        processes = context.processes
        nodes = tree.nodes
        places = tree.places
        self.saves = saves
        deferredDeletions = events.deferredDeletions
        documents = events.documents
    }

    /// How often a path may change under the walk.
    private static let longestChase = 16

    func find(_ path: [UInt8]) throws(LookupFailure) -> any TrackedDocument {
        let names = path.split(separator: UInt8(ascii: "/")).map { NameBytes(Array($0)) }
        for name in names where !name.isOrdinary { throw .system(EINVAL) }
        for _ in 0..<Self.longestChase {
            var walked: [Node] = []
            // The table of documents holds the tracked nodes from then on.
            defer { for node in walked { nodes.forget(node.id, lookups: 1) } }
            if let file = try walk(names, &walked) { return file }
        }
        throw .system(ESTALE)
    }

    /// Whether the path is in the kernel's memory, and on no other machine or daemon.
    func canFindWithoutBlocking(_ path: [UInt8]) -> Bool {
        guard !nodes.root.isDistant else { return false }
        do throws(Errno) {
            let root = try nodes.root.descriptor()
            return path.withPath { root.descriptor.isCached($0) }
        } catch {
            return false
        }
    }

    func follow(_ item: ItemID) -> (any TrackedDocument)? { documents.follow(item) }

    func path(of item: ItemID, at place: Place) -> [UInt8]? {
        if let path = place.link.flatMap({ places.path(of: $0) }) { return path }
        if let place = documents.place(of: item) { return place.path }
        if let place = deferredDeletions.place(of: item) { return place.link.flatMap { places.path(of: $0) } }
        return nodes[item]?.path
    }

    func isFile(_ item: ItemID, _ status: FileStatus) -> Bool { nodes[item]?.key == FileKey(status) }

    func party(ofProcess process: Int32) -> Party { processes.party(ofProcess: process) }

    /// Returns nil if the path has changed meanwhile.
    private func walk(_ names: [NameBytes], _ walked: inout [Node]) throws(LookupFailure) -> TrackedFile? {
        var node = nodes.root
        var last: FileStatus?
        for (index, name) in names.enumerated() {
            let isLast = index == names.count - 1
            guard !node.isRoot || name.bytes != Array(".truce".utf8) else { throw .denied }
            guard let status = try status(of: name, in: node) else {
                guard isLast else { throw .notFound }
                return try followMissing(name, in: node)
            }
            guard isLast || status.isDirectory else { throw status.isSymbolicLink ? .denied : .notFound }
            let found = nodes.introduce(status, as: name, in: node, isLocked: false)
            walked.append(found)
            guard let again = try self.status(of: name, in: node), FileKey(again) == found.key else {
                return nil
            }
            tree.correctName(of: found, to: name, in: node, again)
            if isLast { identity.foundAwaited(found, as: name, in: node) }
            (node, last) = (found, again)
        }
        let item = node.item
        let file = documents.track(item, at: .node(node))
        // A step that takes a name away marks that before it looks up the tracked documents.
        if node.item == item, node.hasName {
            if let last { noteFound(item, last) }
            return file
        }
        // It has become another document meanwhile, or is gone.
        file.release()
        return nil
    }

    /// Sets the snapshot from which later changes of the document are reported.
    private func noteFound(_ item: ItemID, _ status: FileStatus) {
        let look = TrackedFile.FileSnapshot(status)
        // Present presenters may not have been told of all changes yet.
        if engine.isPresented(item) {
            documents.noteFound(item, as: look)
        } else {
            documents.noteReported(item, as: look)
        }
    }

    /// Tracks a document that does not exist yet, or is missing in the middle of a save.
    private func followMissing(_ name: NameBytes, in directory: Node) throws(LookupFailure) -> TrackedFile? {
        let pendingSave = saves.pendingSave(
            of: name.bytes, in: NodeNumber(directory.id.rawValue), for: nil)
        let former = pendingSave.flatMap { nodes[NodeID($0.oldNode.rawValue)] }
        let file = documents.track(
            pendingSave?.document ?? context.makeItem(), at: .names([name], in: directory, former: former))
        do throws(LookupFailure) {
            // A file that was made before the document was tracked has not been reported.
            if try status(of: name, in: directory) == nil { return file }
        } catch {
            file.release()
            throw error
        }
        file.release()
        return nil
    }

    /// The status of a name; nil if the name does not exist.
    private func status(of name: NameBytes, in directory: Node) throws(LookupFailure) -> FileStatus? {
        do throws(Errno) {
            return try directory.status(of: name)
        } catch {
            switch error.rawValue {
            case ENOENT: return nil
            case ENOTDIR: throw .notFound
            default: throw .system(error.rawValue)
            }
        }
    }

    /// A document is presented from now on, or a directory with all items in it.
    func didRegisterPresenter(_ document: any TrackedDocument) {
        if let node = nodes[document.item] { events.watchWriters(in: node) }
    }
}

extension NameBytes {
    /// Whether it is a name that a directory may hold, other than `.` and `..`.
    fileprivate var isOrdinary: Bool {
        !bytes.contains(0) && bytes != [UInt8(ascii: ".")] && bytes != Array("..".utf8)
    }
}
