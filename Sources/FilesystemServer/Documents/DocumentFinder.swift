// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Finds documents by their paths, for clients of the control socket.
///
/// The search looks up the names in the source, and not through the mount, so the kernel holds none of the mount's locks for
/// it. Another program may rename files meanwhile. So the status of each name is read a second time when its node is known, and
/// a difference restarts the search.
final class DocumentFinder: DocumentSource {
    let context: MountContext
    let tree: FileTree
    let sightings: Sightings
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
        _ context: MountContext, _ tree: FileTree, _ sightings: Sightings, _ saves: SaveTracker,
        _ events: DocumentEvents, _ identity: DocumentIdentity
    ) {
        self.context = context
        self.tree = tree
        self.sightings = sightings
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

    /// How often the search restarts because the path has changed.
    private static let longestChase = 16

    func find(_ path: [UInt8]) throws(LookupFailure) -> any TrackedDocument {
        let names = path.split(separator: UInt8(ascii: "/")).map { NameBytes(Array($0)) }
        for name in names where !name.isOrdinary { throw .system(EINVAL) }
        for _ in 0..<Self.longestChase {
            var walked: [Node] = []
            // The walk has counted a look-up of each node, and these look-ups are taken back here. For a tracked document, the
            // table of documents counts look-ups of its own.
            defer { for node in walked { nodes.forget(node.id, lookups: 1) } }
            if let file = try walk(names, &walked) { return file }
        }
        throw .system(ESTALE)
    }

    /// Whether the path can be looked up without waiting. This is so if the kernel has the path in memory, and the file is not
    /// on a network or a FUSE file system.
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

    /// Looks up the names of the path and tracks the document at its end. Returns nil if a name on the path has changed
    /// meanwhile.
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
        // A request that removes the name first changes the node, and then searches for a tracked document. This code
        // works in the opposite order: it tracks the document, and then checks the node. So if both run at the same
        // time, at least one of the two finds what the other has changed.
        if node.item == item, node.hasName {
            if let last { noteFound(item, last) }
            return file
        }
        // Between the look-up and now, the file has become another document or has lost its name.
        file.release()
        return nil
    }

    /// Sets the snapshot of a document that a client has found. A later change is detected because the file then differs from
    /// this snapshot.
    private func noteFound(_ item: ItemID, _ status: FileStatus) {
        let look = TrackedFile.FileSnapshot(status)
        // A presenter that already presents the document may not have got events for all changes since the stored snapshot. So
        // this snapshot is replaced only if the document has another file now.
        if engine.isPresented(item) {
            documents.noteFound(item, as: look)
        } else {
            documents.noteReported(item, as: look)
        }
    }

    /// Tracks a document without a file: it does not exist yet, or its name is missing in the middle of a save.
    private func followMissing(_ name: NameBytes, in directory: Node) throws(LookupFailure) -> TrackedFile? {
        let pendingSave = saves.pendingSave(
            of: name.bytes, in: NodeNumber(directory.id.rawValue), for: nil)
        let former = pendingSave.flatMap { nodes[NodeID($0.oldNode.rawValue)] }
        let file = documents.track(
            pendingSave?.document ?? context.makeItem(), at: .names([name], in: directory, former: former))
        do throws(LookupFailure) {
            // A file may have been made under the name before the document was tracked. Its creation caused no event. So the
            // name is looked up a second time.
            if try status(of: name, in: directory) == nil { return file }
        } catch {
            file.release()
            throw error
        }
        file.release()
        return nil
    }

    /// The status of the file with a name; nil if the name does not exist.
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

    /// Called when a document has got a presenter. If the document is a directory, the presenter also presents all items in it.
    func didRegisterPresenter(_ document: any TrackedDocument, by party: Party?) {
        guard let node = nodes[document.item] else { return }
        events.watchWriters(in: node)
        // The partner is the program for which the client presents the document.
        for process in [party?.process, party?.partner?.process].compactMap(\.self) {
            sightings.notePresenter(of: node, process: process.number)
        }
    }
}

extension NameBytes {
    /// Whether the name may be used in a path: it contains no zero byte, and it is neither `.` nor `..`.
    fileprivate var isOrdinary: Bool {
        !bytes.contains(0) && bytes != [UInt8(ascii: ".")] && bytes != Array("..".utf8)
    }
}
