// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// What became of names that were changed around the mount, told to those who show them.
///
/// What the directories say now is compared with what is remembered: first what is where a document is followed, so that a
/// document stays with its name; then what is elsewhere, which may have been moved; then what is gone.
extension CoordinatedFilesystem {
    func tell(of seen: SeenChanges, later: inout SeenChanges) {
        var names = FollowedNames(documents)
        var held: [Node] = []
        defer { for node in held { nodes.forget(node.id, lookups: 1) } }
        let touches = hold(directoriesOf: names.join(seen), &held)
        var (there, missing) = look(at: touches, later: &later)
        var left: Set<Documents.Name> = []
        there = tellOfExchanges(there, names).filter { touch, status in
            guard let former = names.document(at: touch.key) else { return true }
            return !tellOfDocument(at: former, touch, status, &left)
        }
        for (touch, status) in there { tellOfArrival(touch, status, &left) }
        let formerNames: [Documents.Name: NodeID] = surroundings?.formerNames ?? [:]
        missing = missing.filter { !left.contains($0.key) && !wasFound(by: formerNames, from: $0) }
        // A name may lead elsewhere by now.
        names = FollowedNames(documents)
        if seen.hasLost, names.haveRoot { noteChange(of: nodes.root, .write(.updating)) { .uncoordinated } }
        for touch in missing { tellOfLoss(touch, names) }
        // By now what was lost is awaited: not in directories that are gone as well, but under their names.
        names = FollowedNames(documents)
        for touch in missing { names.leave(touch.key, of: documents) }
        for written in seen.writtenInOrder where isElsewhere(written.what, in: written.node) {
            // Of what is followed, that was told already.
            if seen.hasLost, written.node.state.withLock({ $0.isFollowed }) { continue }
            noteChange(of: written.node, AccessTable.changingAttributes) { .uncoordinated }
        }
    }

    /// What is under the names now, and which of them are missing.
    private func look(
        at touches: [SeenChanges.Touch], later: inout SeenChanges
    ) -> (there: [Found], missing: [SeenChanges.Touch]) {
        var (there, missing): ([Found], [SeenChanges.Touch]) = ([], [])
        for touch in touches where !touch.directory.isElsewhere {
            let status = self.status(of: touch)
            // What the mount does to the name just now comes first, also if it began while we looked.
            if surroundings?.own.has(touch.key, within: OwnChanges.moment, at: Engine.now) ?? false {
                later.add(touch)
            } else if let status {
                there.append((touch, status))
            } else {
                missing.append(touch)
            }
        }
        return (there, missing)
    }

    /// Something is under a name where a document is followed. Returns whether it is the document.
    private func tellOfDocument(
        at former: Node, _ touch: SeenChanges.Touch, _ status: FileStatus, _ left: inout Set<Documents.Name>
    ) -> Bool {
        if FileKey(status) == former.key {
            if let origin = formerName(of: former, now: touch) {
                left.insert(Documents.Name(origin.name, in: origin.directory))
                noteMove(of: former, from: origin, to: NameChange(around: touch.name, in: touch.directory))
                guard touch.what.contains(.written) else { return true }
            }
            guard !touch.isDoubtful, !touch.isSupposed || hasChanged(former, status) else { return true }
            noteChange(of: former, .write(.updating)) { .uncoordinated }
            return true
        }
        guard former.kind == S_IFREG, status.isRegularFile else {
            if !findAgain(former, from: touch) { lose(former) }
            return false
        }
        let node = nodes.introduce(status, as: touch.name, in: touch.directory, isLocked: false)
        defer { nodes.forget(node.id, lookups: 1) }
        let change = NameChange(around: touch.name, in: touch.directory)
        lost(former, touch.name, in: touch.directory, wasLast: false)
        if let origin = formerName(of: node, now: touch) { tellMove(of: node, from: origin, to: change) }
        takeOver(node, from: former)
        rename(node, to: change)
        documents.moved(node)
        engine.placePresenters(of: node.item)
        noteChange(of: node, .write(.updating)) { .uncoordinated }
        return true
    }

    /// Whether something was done to a document that those who follow it have not heard of. Of a directory nobody can say.
    func hasChanged(_ document: Node, _ status: FileStatus) -> Bool {
        guard document.kind == S_IFREG, let known = documents.look(of: document.item) else { return true }
        return known != TrackedFile.Look(status) && isElsewhere(.written, in: document)
    }

    /// The name a node was known by, if it is not there any more.
    func formerName(of node: Node, now touch: SeenChanges.Touch) -> NameChange? {
        let (name, parent, hasName) = node.state.withLock { ($0.name, $0.parent, $0.hasName) }
        let (formerName, directory) = surroundings?.takeFormerName(of: node) ?? (name, hasName ? parent : nil)
        guard let directory, !directory.isElsewhere else { return nil }
        let former = SeenChanges.Touch(directory: directory, name: formerName, what: [])
        if former.key == touch.key { return nil }
        if let status = status(of: former), FileKey(status) == node.key { return nil }
        return NameChange(around: formerName, in: directory)
    }

    /// Something is under a name where nothing is followed.
    private func tellOfArrival(
        _ touch: SeenChanges.Touch, _ status: FileStatus, _ left: inout Set<Documents.Name>
    ) {
        let known = nodes[FileKey(status)]
        if let known, let origin = tellOfMove(of: known, to: touch) {
            left.insert(Documents.Name(origin.name, in: origin.directory))
            return
        }
        guard known != nil || (engine.isAttended && !touch.isDoubtful) || !documents.awaitsNothing else {
            return
        }
        let node = nodes.introduce(status, as: touch.name, in: touch.directory, isLocked: false)
        defer { nodes.forget(node.id, lookups: 1) }
        if !node.isElsewhere,
            fillAwaited(touch.name, in: touch.directory, with: node, by: { .uncoordinated })
        {
            return noteChange(of: node, .write(.updating)) { .uncoordinated }
        }
        if touch.what.contains(.appeared) {
            noteCreation(of: node, NameChange(around: touch.name, in: touch.directory))
        } else if !touch.changesName, !touch.isDoubtful {
            noteChange(of: node, AccessTable.changingAttributes) { .uncoordinated }
        }
    }

    /// Nothing is under a name any more.
    private func tellOfLoss(_ touch: SeenChanges.Touch, _ names: FollowedNames) {
        let moved = Set(names.nodes(at: touch.key).filter { findAgain($0, from: touch) }.map(\.id))
        for node in names.losses(at: touch.key, besides: moved) { lose(node) }
        guard moved.isEmpty, !names.isFollowed(touch.key), touch.what.contains(.vanished),
            !touch.what.contains(.appeared)
        else { return }
        noteDeletion(ofUnknown: NameChange(around: touch.name, in: touch.directory))
    }

    /// A document is gone, by itself or with a directory above it.
    private func lose(_ node: Node) {
        let (name, parent, hasName) = node.state.withLock { ($0.name, $0.parent, $0.hasName) }
        guard hasName, let parent else { return }
        lost(node, name, in: parent, wasLast: false)
        if node.kind == S_IFDIR { documents.lost(node, called: name, in: parent) }
        loseDocument(of: node, called: NameChange(around: name, in: parent), under: nil)
    }
}

/// The names that lead to documents somebody follows.
struct FollowedNames {
    private struct Follower {
        let node: Node
        let document: Node?
        /// The document, or the directory in which it is awaited.
        let anchor: Node
        var isItself: Bool { node === document }
    }

    private var followers: [Documents.Name: [Follower]] = [:]
    /// The names that documents wait for.
    private var awaited: [SeenChanges.Touch] = []
    /// The root has no name that anything could happen to.
    private(set) var haveRoot = false

    init(_ documents: Documents) {
        for place in documents.allPlaces {
            var document: Node?
            switch place {
            case .node(let node):
                document = node
                if node.isRoot { haveRoot = true }
            case .names(let names, let directory, _):
                awaited += names.prefix(1).map { .init(directory: directory, name: $0, what: .appeared) }
            }
            var next: Node? = place.anchor
            while let node = next, !node.isRoot {
                let (name, parent, hasName) = node.state.withLock { ($0.name, $0.parent, $0.hasName) }
                next = parent
                guard hasName, let parent else { continue }
                let follower = Follower(node: node, document: document, anchor: place.anchor)
                followers[Documents.Name(name, in: parent), default: []].append(follower)
            }
        }
    }

    /// The node of the document that is followed under a name.
    func document(at name: Documents.Name) -> Node? { followers[name]?.first(where: \.isItself)?.node }

    func isFollowed(_ name: Documents.Name) -> Bool { followers[name]?.contains(where: \.isItself) ?? false }

    /// What is known by a name still, and is a document or leads to some.
    func nodes(at name: Documents.Name) -> [Node] {
        let known = (followers[name] ?? []).filter { $0.node.isKnown(by: name) }
        return Array(Dictionary(known.map { ($0.node.id, $0.node) }) { one, _ in one }.values)
    }

    /// Documents that are gone if a name is, and has not moved with what is in it.
    func losses(at name: Documents.Name, besides moved: Set<NodeID>) -> [Node] {
        (followers[name] ?? []).filter { !moved.contains($0.node.id) && $0.node.isKnown(by: name) }
            .compactMap(\.document)
    }

    /// What is awaited in a directory that is gone, or below it, is awaited together with that from now on.
    func leave(_ name: Documents.Name, of documents: Documents) {
        for follower in followers[name] ?? [] where follower.document == nil {
            var next: Node? = follower.anchor
            while let directory = next {
                let (name, parent) = directory.state.withLock { ($0.name, $0.parent) }
                if let parent { documents.lost(directory, called: name, in: parent) }
                next = directory === follower.node ? nil : parent
            }
        }
    }

    /// What was seen, each name once; if some of it was lost, whatever is followed counts as seen.
    func join(_ seen: SeenChanges) -> [SeenChanges.Touch] {
        guard seen.hasLost else { return seen.touchesInOrder }
        let all = touches
        let keys = Set(all.map(\.key))
        return seen.touchesInOrder.filter { !keys.contains($0.key) } + all
    }

    private var touches: [SeenChanges.Touch] {
        let documents = followers.values.joined().filter { $0.isItself && !$0.node.isElsewhere }
        return awaited
            + documents.compactMap { follower in
                let (name, parent) = follower.node.state.withLock { ($0.name, $0.parent) }
                return parent.map {
                    SeenChanges.Touch(
                        directory: $0, name: name, what: [.appeared, .vanished, .written], isSupposed: true)
                }
            }
    }
}

extension Node {
    /// Whether it is known by this name: others may have learnt of another since the name was found.
    fileprivate func isKnown(by name: Documents.Name) -> Bool {
        let (own, parent, hasName) = state.withLock { ($0.name, $0.parent, $0.hasName) }
        return hasName && parent.map { Documents.Name(own, in: $0) == name } ?? false
    }
}
