// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Events of files and directories for presenters. The acting program is identified only if a presenter is interested.
///
/// A request that changes an item reports the event before it is answered, so that later questions come after the
/// event.
final class DocumentEvents: Sendable {
    let documents: DocumentTable
    let writerMonitor = OpenWriterMonitor()
    let deferredDeletions = DeferredDeletions()
    let context: MountContext
    let engine: Engine
    let processes: ProcessResolver
    let nodes: NodeTable
    let handles: HandleTable
    let places: PlaceRegistry
    let saves: SaveTracker

    init(_ context: MountContext, _ tree: FileTree, _ saves: SaveTracker) {
        self.context = context
        engine = context.engine
        processes = context.processes
        nodes = tree.nodes
        handles = tree.handles
        places = tree.places
        self.saves = saves
        documents = DocumentTable(nodes: tree.nodes, places: tree.places)
    }

    /// Reports that a file's contents or attributes changed; with `isOngoing` the program may go on writing.
    func noteChange(
        of node: Node, _ access: Access, under claim: ClaimID? = nil, isOngoing: Bool = false,
        since baseline: Stamp? = nil, by party: () -> Party
    ) {
        guard engine.hasAwareClients, node.itemClass != .private else { return }
        // A file without a name concerns no presenter, because an event of a name says that the name exists.
        guard node.hasName else { return }
        let item = node.item
        guard hasInterestedPresenter(node) else { return }
        let by = party()
        let stamp = stamp(of: node, item, by: by, isOngoing: isOngoing, since: baseline)
        // The root, or a file known by a handle only.
        guard node.parent != nil else {
            engine.noteChange(
                of: item, at: Place(), by: by, access, under: claim, stamp: stamp, isOngoing: isOngoing)
            return
        }
        // Presenters of a directory know the file by its name there. It may be renamed meanwhile.
        let isTracked = node.isTracked
        var told: [Place] = []
        for _ in 0..<Self.mostAttempts {
            let names = places.toldNames(of: node).filter { isTracked || !$0.isPrivate }.map {
                ($0, places.place($0.name, in: $0.directory))
            }
            let untold = names.filter { _, place in
                !told.contains(place) && engine.hasInterestedPresenter(of: item, at: place)
            }
            guard !untold.isEmpty else { return }
            for (name, place) in untold {
                let isThere = engine.noteChange(
                    of: item, at: place, by: by, access, under: claim, stamp: stamp, isOngoing: isOngoing
                ) {
                    places.isTold(name, of: node)
                }
                if isThere { told.append(place) }
            }
        }
    }

    /// How often a file's names are read again if they change while the event is reported.
    private static let mostAttempts = 8

    /// Whether presenters are interested in a file, under any of its names.
    func hasInterestedPresenter(_ node: Node) -> Bool {
        let item = node.item
        return engine.hasInterestedPresenter(of: item, at: place(of: node))
            || node.otherNames.contains {
                engine.hasInterestedPresenter(of: item, at: places.place($0.name, in: $0.directory))
            }
    }

    /// The place of a file with its present name; a presenter that is told may ask for it after a rename.
    func place(of node: Node) -> Place {
        let (name, parent, _) = node.location
        return parent.map { places.place(name, in: $0) } ?? Place()
    }

    func noteChange(
        of node: Node, _ access: Access, under claim: ClaimID? = nil, byThread thread: Int32
    ) {
        noteChange(of: node, access, under: claim) { processes.currentParty(ofThread: thread) }
    }

    /// Identifies the program that gets a handle, if presenters are interested in its writes. The program waits for its
    /// open now; when the handle closes, it may be gone, and the change would have no author.
    ///
    /// Returns whether presenters are interested.
    func identifyWriter(of handle: Handle) -> Bool {
        let node = handle.node
        guard engine.hasAwareClients, handle.mayWrite, node.itemClass != .private,
            hasInterestedPresenter(node)
        else {
            return false
        }
        _ = handle.identify()
        return true
    }

    /// Reports the changes of a handle that is about to close.
    func noteChange(by handle: Handle) {
        guard engine.hasAwareClients, handle.hasChanged else { return }
        if !handle.hasClaim, writerMonitor.hasTold(handle) { return }
        let claim = handle.hasClaim ? handle.currentClaim : nil
        let baseline = handle.baseline?.stamp
        noteChange(of: handle.node, handle.access, under: claim, since: baseline) { handle.identify() }
    }

    /// Reports a rename; tracked documents at the node or below it then hold their new path to the root.
    func noteMove(
        of node: Node, from: NameChange, to: NameChange, isSecondHalf: Bool = false,
        under claim: ClaimID? = nil
    ) {
        documents.noteMoved(node)
        tellMove(of: node, from: from, to: to, isSecondHalf: isSecondHalf, under: claim)
    }

    /// Reports a move. The engine needs moves to other directories even without presenters: claims follow a moved file,
    /// and a moved directory takes all items below it along.
    ///
    /// `document` has the new name already, and stays the item of that name.
    func tellMove(
        of node: Node, from: NameChange, to: NameChange, over document: ItemID? = nil,
        isSecondHalf: Bool = false, under claim: ClaimID? = nil
    ) {
        // An out-of-band rename was not announced before.
        if engine.hasAwareClients { places.beginRename(of: node, from: from.known) }
        defer { places.endRename(of: node) }
        noteNames(of: node)
        publishDeferredDeletion(at: to)
        let item = node.item
        guard engine.hasAwareClients, !from.isPrivate || !to.isPrivate else {
            let isPlaced = node.isPlaced
            guard isPlaced || (node.kind != S_IFDIR && from.directory !== to.directory) else { return }
            let move = Move(from: places.place(in: from.directory), to: places.place(in: to.directory))
            return engine.noteMove(of: item, move, by: .nobody) { places.endRename(of: node) }
        }
        var move = Move(
            from: places.place(from.name, in: from.directory), to: places.place(to.name, in: to.directory),
            replacedDocument: document, isSecondHalf: isSecondHalf)
        // Presenters of the directory do not know a helper file's name, so the file is reported as new.
        if from.isPrivate, !node.isTracked { move.from = Place() }
        if let left = documentLeft(at: from, by: item) {
            move.placeholder = left.item
            // By then the document of the vacated name is tracked by its later users.
            defer { engine.runAfterEffects { left.release() } }
            return tell(move, of: node, by: to, under: claim)
        }
        tell(move, of: node, by: to, under: claim)
    }

    private func tell(_ move: Move, of node: Node, by to: NameChange, under claim: ClaimID?) {
        let item = node.item
        let isHeardNow = engine.hasInterestedPresenter(of: item, at: move.to)
        let hasInterestedPresenter = isHeardNow || engine.hasInterestedPresenter(of: item, at: move.from)
        if isHeardNow { watchWriters(in: node) }
        engine.noteMove(
            of: item, move,
            by: hasInterestedPresenter ? party(behind: to) : .nobody, under: claim
        ) { places.endRename(of: node) }
    }

    /// The new item of the former name, if an aware access waits to replace the file there.
    private func documentLeft(at from: NameChange, by item: ItemID) -> TrackedFile? {
        guard engine.awaitsReplacement(item) else { return nil }
        return documents.track(context.makeItem(), at: .names([from.name], in: from.directory, former: nil))
    }

    /// Reports a new name.
    func noteCreation(of node: Node, _ change: NameChange, under claim: ClaimID? = nil) {
        publishDeferredDeletion(at: change)
        guard engine.hasAwareClients, !change.isPrivate else { return }
        defer { watchWriters(of: node) }
        // A further name of a document concerns none of the presenters that present it by another name.
        let isOther =
            node.isTracked && !node.isCalled(change.name, in: change.directory)
        let (item, place) = (
            isOther ? context.makeItem() : node.item, places.place(change.name, in: change.directory)
        )
        guard engine.hasInterestedPresenter(of: item, at: place) else { return }
        engine.noteCreation(
            of: item, at: place, by: party(behind: change), under: claim)
    }

    /// Reports that a name is gone, except by a step of a save.
    func noteDeletion(of node: Node, _ change: NameChange, under claim: ClaimID? = nil) {
        guard engine.hasAwareClients, !change.isPrivate else { return }
        let (item, place) = (node.item, places.place(change.name, in: change.directory))
        guard engine.hasInterestedPresenter(of: item, at: place) else { return }
        engine.noteDeletion(
            of: item, at: place, by: party(behind: change), under: claim)
    }

    /// Reports the removal of an item that had no node, and so has no number.
    func noteDeletion(ofUnknown change: NameChange) {
        guard engine.hasAwareClients, !change.isPrivate else { return }
        let (item, place) = (context.makeItem(), places.place(change.name, in: change.directory))
        guard engine.hasInterestedPresenter(of: item, at: place) else { return }
        engine.noteDeletion(of: item, at: place, by: party(behind: change))
    }

    private func party(behind change: NameChange) -> Party {
        change.isOutOfBand ? .outOfBand : processes.currentParty(ofThread: change.caller.thread)
    }

    /// The number by which the engine tells whether an event covers the file's present state; updates the reported
    /// snapshot.
    private func stamp(
        of node: Node, _ item: ItemID, by party: Party, isOngoing: Bool, since baseline: Stamp?
    ) -> UInt64 {
        do throws(Errno) {
            let status = try node.descriptor().descriptor.status()
            let (look, isTimeRacy) = (TrackedFile.FileSnapshot(status), context.isTimeRacy(status))
            documents.noteReported(item, as: look)
            guard isOngoing else {
                if let baseline {
                    noteOther(node, look.stamp, since: baseline, by: party, isDoubtful: isTimeRacy)
                }
                return look.stamp.number
            }
            // The program may write again before the file system's clock shows it.
            return isTimeRacy ? Engine.now.nanoseconds : look.stamp.number
        } catch {
            // A file that cannot be observed counts as changed.
            return Engine.now.nanoseconds
        }
    }

    /// Updates the snapshot after a change of names, so that it is not reported as a change of contents.
    func noteNames(of node: Node) {
        guard node.kind == S_IFREG, engine.hasAwareClients, node.isTracked else {
            return
        }
        do throws(Errno) {
            let look = TrackedFile.FileSnapshot(try node.descriptor().descriptor.status())
            documents.noteRenamed(node.item, as: look)
        } catch {
            // In this case the change is reported once too often, if the kernel loses events.
            return
        }
    }
}

extension Handle {
    /// Whether other programs find other contents in the file, or another file under its name, than before the open.
    fileprivate var hasChanged: Bool {
        if truncates || fillsName { return true }
        return mayWrite && mayHaveWritten
    }
}
