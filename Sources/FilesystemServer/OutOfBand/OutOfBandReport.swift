// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Reports out-of-band changes of names to the programs that present or follow these names.
///
/// For each changed name, the file that the name has now is compared with the file that the daemon knows by it:
/// - First come the names of followed documents, so that each document stays with its name.
/// - Then come other names that have a file. A followed file may have moved there.
/// - Last come the names that have no file any more.
extension OutOfBandMonitor {
    func tell(of seen: OutOfBandChanges, later: inout OutOfBandChanges) {
        var names = TrackedNames(documents)
        var held: [Node] = []
        defer { for node in held { nodes.forget(node.id, lookups: 1) } }
        let dirtyNames = retain(directoriesOf: names.join(seen), &held)
        var (there, missing) = look(at: dirtyNames, later: &later)
        for (dirtyName, _) in there {
            conflictCopies.noteArrival(of: dirtyName.name, in: dirtyName.directory, isOutOfBand: true)
        }
        for dirtyName in missing {
            conflictCopies.noteDeparture(of: dirtyName.name, in: dirtyName.directory)
        }
        var left: Set<EntryName> = []
        there = tellOfExchanges(there, names).filter { dirtyName, status in
            guard let former = names.document(at: dirtyName.key) else { return true }
            return !tellOfDocument(at: former, dirtyName, status, &left)
        }
        for (dirtyName, status) in there { tellOfArrival(dirtyName, status, &left) }
        let formerNames: [EntryName: NodeID] = sourceWatcher?.formerNames ?? [:]
        missing = missing.filter {
            !left.contains($0.key) && !reportMoveFoundByLookup(by: formerNames, from: $0)
        }
        // The list of names is made again, because a document may have another name after the previous steps.
        names = TrackedNames(documents)
        if seen.hasOverflowed, names.haveRoot {
            events.noteChange(of: nodes.root, .write(.updating)) { .outOfBand }
        }
        for dirtyName in missing { tellOfLoss(dirtyName, names) }
        // The list of names is made again, because documents that lost their file in the previous step now wait for a
        // new one. If a document's directory is gone as well, the document waits for a new directory with that
        // directory's name.
        names = TrackedNames(documents)
        for dirtyName in missing { names.leave(dirtyName.key, of: documents) }
        for written in seen.dirtyNodesInOrder where isExternalChange(written.mask, in: written.node) {
            // After the kernel has dropped events, all followed documents were already checked earlier in this
            // function.
            if seen.hasOverflowed, written.node.isTracked { continue }
            events.noteChange(of: written.node, AccessTable.changingAttributes) { .outOfBand }
        }
    }

    /// Reads the status of the file under each name. Returns two lists: the names that have a file, and the names that
    /// have none.
    private func look(
        at dirtyNames: [OutOfBandChanges.DirtyName], later: inout OutOfBandChanges
    ) -> (there: [DirtyNameStatus], missing: [OutOfBandChanges.DirtyName]) {
        var (there, missing): ([DirtyNameStatus], [OutOfBandChanges.DirtyName]) = ([], [])
        for dirtyName in dirtyNames where !dirtyName.directory.isOnSubmount {
            let status = self.status(of: dirtyName)
            // A program of the mount is changing this name now, or changed it during the lookup. So this name is
            // reported later.
            if sourceWatcher?.own.has(dirtyName.key, within: OwnChanges.moment, at: Engine.now) ?? false {
                later.add(dirtyName)
            } else if let status {
                there.append((dirtyName, status))
            } else {
                missing.append(dirtyName)
            }
        }
        return (there, missing)
    }

    /// Reports a file that has the name of a followed document. Returns whether this file now belongs to the document.
    private func tellOfDocument(
        at former: Node, _ dirtyName: OutOfBandChanges.DirtyName, _ status: FileStatus,
        _ left: inout Set<EntryName>
    ) -> Bool {
        if FileKey(status) == former.key {
            if let origin = formerName(of: former, now: dirtyName) {
                left.insert(EntryName(origin.name, in: origin.directory))
                events.noteMove(
                    of: former, from: origin,
                    to: NameChange(outOfBand: dirtyName.name, in: dirtyName.directory))
                guard dirtyName.mask.contains(.written) else { return true }
            }
            guard !dirtyName.isDoubtful, !dirtyName.isSupposed || hasChanged(former, status) else {
                return true
            }
            events.noteChange(of: former, .write(.updating)) { .outOfBand }
            return true
        }
        guard former.kind == S_IFREG, status.isRegularFile else {
            if !findAgain(former, from: dirtyName) { lose(former) }
            return false
        }
        let node = nodes.introduce(status, as: dirtyName.name, in: dirtyName.directory, isLocked: false)
        defer { nodes.forget(node.id, lookups: 1) }
        let change = NameChange(outOfBand: dirtyName.name, in: dirtyName.directory)
        identity.removeName(former, dirtyName.name, in: dirtyName.directory, wasLast: false)
        if let origin = formerName(of: node, now: dirtyName) {
            events.tellMove(of: node, from: origin, to: change)
        }
        identity.takeOver(node, from: former)
        identity.rename(node, to: change)
        documents.noteMoved(node)
        engine.placePresenters(of: node.item)
        events.noteChange(of: node, .write(.updating)) { .outOfBand }
        return true
    }

    /// Returns whether a file was changed and its followers were not told of the change yet. Always returns true for a
    /// directory.
    func hasChanged(_ document: Node, _ status: FileStatus) -> Bool {
        guard document.kind == S_IFREG, let known = documents.snapshot(of: document.item) else { return true }
        return known != TrackedFile.FileSnapshot(status) && isExternalChange(.written, in: document)
    }

    /// Returns the name that a node had before the present one. Returns nil if the node had no name, or if the old name
    /// still leads to the node.
    func formerName(of node: Node, now dirtyName: OutOfBandChanges.DirtyName) -> NameChange? {
        let (name, parent, hasName) = node.location
        let (formerName, directory) =
            sourceWatcher?.takeFormerName(of: node) ?? (name, hasName ? parent : nil)
        guard let directory, !directory.isOnSubmount else { return nil }
        let former = OutOfBandChanges.DirtyName(directory: directory, name: formerName, mask: [])
        if former.key == dirtyName.key { return nil }
        if let status = status(of: former), FileKey(status) == node.key { return nil }
        return NameChange(outOfBand: formerName, in: directory)
    }

    /// Reports a file that has a name which no followed document has.
    private func tellOfArrival(
        _ dirtyName: OutOfBandChanges.DirtyName, _ status: FileStatus,
        _ left: inout Set<EntryName>
    ) {
        let known = nodes[FileKey(status)]
        if let known, let origin = tellOfMove(of: known, to: dirtyName) {
            left.insert(EntryName(origin.name, in: origin.directory))
            return
        }
        guard known != nil || (engine.hasAwareClients && !dirtyName.isDoubtful) || !documents.awaitsNothing
        else {
            return
        }
        let node = nodes.introduce(status, as: dirtyName.name, in: dirtyName.directory, isLocked: false)
        defer { nodes.forget(node.id, lookups: 1) }
        if !node.isOnSubmount,
            identity.fillFound(dirtyName.name, in: dirtyName.directory, with: node, by: { .outOfBand })
        {
            return events.noteChange(of: node, .write(.updating)) { .outOfBand }
        }
        if dirtyName.mask.contains(.appeared) {
            events.noteCreation(of: node, NameChange(outOfBand: dirtyName.name, in: dirtyName.directory))
        } else if !dirtyName.changesName, !dirtyName.isDoubtful {
            events.noteChange(of: node, AccessTable.changingAttributes) { .outOfBand }
        }
    }

    /// Reports a name that has no file any more.
    private func tellOfLoss(_ dirtyName: OutOfBandChanges.DirtyName, _ names: TrackedNames) {
        let moved = Set(names.nodes(at: dirtyName.key).filter { findAgain($0, from: dirtyName) }.map(\.id))
        for node in names.losses(at: dirtyName.key, besides: moved) { lose(node) }
        guard moved.isEmpty, !names.isTracked(dirtyName.key), dirtyName.mask.contains(.vanished),
            !dirtyName.mask.contains(.appeared)
        else { return }
        events.noteDeletion(ofUnknown: NameChange(outOfBand: dirtyName.name, in: dirtyName.directory))
    }

    /// Reports that a document is gone, or that a directory above it is gone.
    private func lose(_ node: Node) {
        let (name, parent, hasName) = node.location
        guard hasName, let parent else { return }
        identity.removeName(node, name, in: parent, wasLast: false)
        if node.kind == S_IFDIR { documents.noteDirectoryLost(node, called: name, in: parent) }
        identity.loseDocument(of: node, called: NameChange(outOfBand: name, in: parent), under: nil)
    }
}

/// The names of followed documents, and of all directories above them.
struct TrackedNames {
    private struct Follower {
        let node: Node
        let document: Node?
        /// The node of the document's file. If the document has no file, this is the node of the directory in which the
        /// document waits for a file.
        let anchor: Node
        var isItself: Bool { node === document }
    }

    private var followers: [EntryName: [Follower]] = [:]
    /// The names at which documents without a file wait for a new file.
    private var awaited: [OutOfBandChanges.DirtyName] = []
    /// Whether a client follows the root of the source, which has no name that could change.
    private(set) var haveRoot = false

    init(_ documents: DocumentTable) {
        for place in documents.allPlaces {
            var document: Node?
            switch place {
            case .node(let node):
                document = node
                if node.isRoot { haveRoot = true }
            case .names(let names, let directory, _):
                awaited += names.prefix(1).map { .init(directory: directory, name: $0, mask: .appeared) }
            }
            var next: Node? = place.anchor
            while let node = next, !node.isRoot {
                let (name, parent, hasName) = node.location
                next = parent
                guard hasName, let parent else { continue }
                let follower = Follower(node: node, document: document, anchor: place.anchor)
                followers[EntryName(name, in: parent), default: []].append(follower)
            }
        }
    }

    /// Returns the node of the followed document that has a name.
    func document(at name: EntryName) -> Node? {
        followers[name]?.first(where: \.isItself)?.node
    }

    func isTracked(_ name: EntryName) -> Bool {
        followers[name]?.contains(where: \.isItself) ?? false
    }

    /// Returns the nodes that still have a name. They are followed documents, or directories above followed documents.
    func nodes(at name: EntryName) -> [Node] {
        let known = (followers[name] ?? []).filter { $0.node.isKnown(by: name) }
        return Array(Dictionary(known.map { ($0.node.id, $0.node) }) { one, _ in one }.values)
    }

    /// Returns the documents that are gone because a name is gone: the document with this name, or all documents in the
    /// directory with this name.
    ///
    /// Leaves out the documents in `moved`, which have moved together with the directory.
    func losses(at name: EntryName, besides moved: Set<NodeID>) -> [Node] {
        (followers[name] ?? []).filter { !moved.contains($0.node.id) && $0.node.isKnown(by: name) }
            .compactMap(\.document)
    }

    /// Called when a directory was removed in which documents wait for a file. From then on these documents also wait
    /// for a new directory with the removed directory's name.
    func leave(_ name: EntryName, of documents: DocumentTable) {
        for follower in followers[name] ?? [] where follower.document == nil {
            var next: Node? = follower.anchor
            while let directory = next {
                let (name, parent, _) = directory.location
                if let parent { documents.noteDirectoryLost(directory, called: name, in: parent) }
                next = directory === follower.node ? nil : parent
            }
        }
    }

    /// Returns a list in which each changed name occurs once. If the kernel has dropped events, the list also contains
    /// the names of all followed documents.
    func join(_ seen: OutOfBandChanges) -> [OutOfBandChanges.DirtyName] {
        guard seen.hasOverflowed else { return seen.dirtyNamesInOrder }
        let all = dirtyNames
        let keys = Set(all.map(\.key))
        return seen.dirtyNamesInOrder.filter { !keys.contains($0.key) } + all
    }

    private var dirtyNames: [OutOfBandChanges.DirtyName] {
        let documents = followers.values.joined().filter { $0.isItself && !$0.node.isOnSubmount }
        return awaited
            + documents.compactMap { follower in
                let (name, parent, _) = follower.node.location
                return parent.map {
                    OutOfBandChanges.DirtyName(
                        directory: $0, name: name, mask: [.appeared, .vanished, .written], isSupposed: true)
                }
            }
    }
}

extension Node {
    /// Returns whether the node still has this name. Another thread may have found a new name of the node in the
    /// meantime.
    fileprivate func isKnown(by name: EntryName) -> Bool {
        let (own, parent, hasName) = location
        return hasName && parent.map { EntryName(own, in: $0) == name } ?? false
    }
}
