// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Sends events about files and directories to the engine, which passes them to presenters. The program that caused an event is
/// identified only if a presenter is interested in the event.
///
/// If a request changes an item, its event is sent before the request is answered. So a presenter gets the event before any
/// question that a later request causes.
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

    /// Sends an event for a change of a file's contents or attributes. `isOngoing` means that the program may continue to
    /// write.
    func noteChange(
        of node: Node, _ access: Access, under claim: ClaimID? = nil, isOngoing: Bool = false,
        since baseline: Stamp? = nil, by party: () -> Party
    ) {
        guard engine.hasAwareClients, node.itemClass != .private else { return }
        // A presenter concludes from an event with a name that the name exists. So for a file without a name, no event is sent.
        guard node.hasName else { return }
        let item = node.item
        guard hasInterestedPresenter(node) else { return }
        let by = party()
        let stamp = stamp(of: node, item, by: by, isOngoing: isOngoing, since: baseline)
        // The node has no parent if it is the root, or a file that the kernel knows by a file handle only.
        guard node.parent != nil else {
            engine.noteChange(
                of: item, at: Place(), by: by, access, under: claim, stamp: stamp, isOngoing: isOngoing)
            return
        }
        // Presenters of a directory know the file by its name in that directory, so an event is sent for each name. The file
        // may be renamed while this loop runs. So the names are read again until there is no name without an event.
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

    /// How often the file's names are read, because they may change while the event is being sent.
    private static let mostAttempts = 8

    /// Whether any presenter is interested in the file, under any of its names.
    func hasInterestedPresenter(_ node: Node) -> Bool {
        let item = node.item
        return engine.hasInterestedPresenter(of: item, at: place(of: node))
            || node.otherNames.contains {
                engine.hasInterestedPresenter(of: item, at: places.place($0.name, in: $0.directory))
            }
    }

    /// The place of a file under its present name, for an event. Even if the file is renamed before a presenter
    /// receives the event, the place still contains this name.
    func place(of node: Node) -> Place {
        let (name, parent, _) = node.location
        return parent.map { places.place(name, in: $0) } ?? Place()
    }

    func noteChange(
        of node: Node, _ access: Access, under claim: ClaimID? = nil, byThread thread: Int32
    ) {
        noteChange(of: node, access, under: claim) { processes.currentParty(ofThread: thread) }
    }

    /// Identifies the program that gets a handle, if presenters are interested in what the program will write. Returns whether
    /// they are interested.
    ///
    /// The program is identified now, while it waits for the answer to its open. When the handle is closed, the program may
    /// have ended already, and could not be identified any more.
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

    /// Sends an event for what a program has changed by a handle that is about to be closed.
    func noteChange(by handle: Handle) {
        guard engine.hasAwareClients, handle.hasChanged else { return }
        if !handle.hasClaim, writerMonitor.hasTold(handle) { return }
        let claim = handle.hasClaim ? handle.currentClaim : nil
        let baseline = handle.baseline?.stamp
        noteChange(of: handle.node, handle.access, under: claim, since: baseline) { handle.identify() }
    }

    /// Sends an event for a merge. The program that has saved does not know the merged text, so its presenters get the event, too.
    func noteMerge(of node: Node) { noteChange(of: node, AccessTable.filling) { .outOfBand } }

    /// Sends an event for a rename. If documents at the node or below it are tracked, they now retain the nodes on their new
    /// path.
    func noteMove(
        of node: Node, from: NameChange, to: NameChange, isSecondHalf: Bool = false,
        under claim: ClaimID? = nil
    ) {
        documents.noteMoved(node)
        tellMove(of: node, from: from, to: to, isSecondHalf: isSecondHalf, under: claim)
    }

    /// Sends an event for a move. The engine gets this event even if there are no presenters, because claims follow a moved
    /// file. A moved directory takes all items below it along.
    ///
    /// `document` is the item that already has the new name and continues to have it; nil if there is none.
    func tellMove(
        of node: Node, from: NameChange, to: NameChange, over document: ItemID? = nil,
        isSecondHalf: Bool = false, under claim: ClaimID? = nil
    ) {
        // For a rename through the mount, this call changes nothing: that rename was noted before it happened. A rename out of
        // band is noted only now.
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
        // The file was a helper file before, so presenters of the directory do not know it. They get an event for a new file
        // instead of a move.
        if from.isPrivate, !node.isTracked { move.from = Place() }
        if let left = documentLeft(at: from, by: item) {
            move.placeholder = left.item
            // The document with the former name is released only after the effects of the event. Until then, no other part of
            // the daemon tracks the document.
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

    /// A new item for the former name, if an aware access waits to replace the file that had this name; otherwise nil. A
    /// document with this item then waits for a file with the former name.
    private func documentLeft(at from: NameChange, by item: ItemID) -> TrackedFile? {
        guard engine.awaitsReplacement(item) else { return nil }
        return documents.track(context.makeItem(), at: .names([from.name], in: from.directory, former: nil))
    }

    /// Sends an event for a new file or directory, or for a new name of an existing one.
    func noteCreation(of node: Node, _ change: NameChange, under claim: ClaimID? = nil) {
        publishDeferredDeletion(at: change)
        guard engine.hasAwareClients, !change.isPrivate else { return }
        defer { watchWriters(of: node) }
        // Presenters of the document present it by another name and need no event for this name. So the event gets a new item.
        let isOther =
            node.isTracked && !node.isCalled(change.name, in: change.directory)
        let (item, place) = (
            isOther ? context.makeItem() : node.item, places.place(change.name, in: change.directory)
        )
        guard engine.hasInterestedPresenter(of: item, at: place) else { return }
        engine.noteCreation(
            of: item, at: place, by: party(behind: change), under: claim)
    }

    /// Sends an event for the removal of a name. Not called if the removal is a step of a save.
    func noteDeletion(of node: Node, _ change: NameChange, under claim: ClaimID? = nil) {
        guard engine.hasAwareClients, !change.isPrivate else { return }
        let (item, place) = (node.item, places.place(change.name, in: change.directory))
        guard engine.hasInterestedPresenter(of: item, at: place) else { return }
        engine.noteDeletion(
            of: item, at: place, by: party(behind: change), under: claim)
    }

    /// Sends an event for the removal of an item that the kernel has never looked up. The item has no node, so the event gets a
    /// new item number.
    func noteDeletion(ofUnknown change: NameChange) {
        guard engine.hasAwareClients, !change.isPrivate else { return }
        let (item, place) = (context.makeItem(), places.place(change.name, in: change.directory))
        guard engine.hasInterestedPresenter(of: item, at: place) else { return }
        engine.noteDeletion(of: item, at: place, by: party(behind: change))
    }

    private func party(behind change: NameChange) -> Party {
        change.isOutOfBand ? .outOfBand : processes.currentParty(ofThread: change.caller.thread)
    }

    /// A number for the state of the file that an event reports. The engine compares this number with that of a later event to
    /// decide whether the later event is needed. Also updates the document's snapshot.
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
            // If the program writes again before the clock of the file system advances, the stamp stays the same. So the number
            // is the present time, which differs for each event.
            return isTimeRacy ? Engine.now.nanoseconds : look.stamp.number
        } catch {
            // A file whose status cannot be read counts as changed.
            return Engine.now.nanoseconds
        }
    }

    /// Updates the snapshot of a document after its names have changed. Without the update, the change of names would be
    /// reported as a change of contents.
    func noteNames(of node: Node) {
        guard node.kind == S_IFREG, engine.hasAwareClients, node.isTracked else {
            return
        }
        do throws(Errno) {
            let look = TrackedFile.FileSnapshot(try node.descriptor().descriptor.status())
            documents.noteRenamed(node.item, as: look)
        } catch {
            // The snapshot is out of date now. If the kernel loses events, presenters may get a needless event for this change.
            return
        }
    }
}

extension Handle {
    /// Whether other programs now find other contents in the file than before the open, or another file under the file's name.
    fileprivate var hasChanged: Bool {
        if truncates || fillsName { return true }
        return mayWrite && mayHaveWritten
    }
}
