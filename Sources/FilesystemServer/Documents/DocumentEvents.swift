// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// What presenters are told of files and directories. Nobody is looked up for what nobody hears of.
///
/// A request that changes something tells of it before it is answered, so that whoever asks afterwards finds
/// it told.
extension CoordinatedFilesystem {
    /// A file was written, or its attributes; maybe by a program that goes on to write.
    func noteChange(
        of node: Node, _ access: Access, under claim: ClaimID? = nil, isOngoing: Bool = false,
        since baseline: Stamp? = nil, by party: () -> Party
    ) {
        guard engine.hasAwareClients, node.itemClass != .private else { return }
        // A file without a name is nobody's: what is told of a name says that it is there.
        guard node.hasName else { return }
        let item = node.item
        guard hasInterestedPresenter(node) else { return }
        let by = party()
        let stamp = stamp(of: node, item, by: by, isOngoing: isOngoing, since: baseline)
        // The root, and what is known by a handle only.
        guard node.parent != nil else {
            engine.noteChange(
                of: item, at: Place(), by: by, access, under: claim, stamp: stamp, isOngoing: isOngoing)
            return
        }
        // Those who follow a directory know the file by the name that it has there. It may be given another one meanwhile.
        let isTracked = node.state.withLock { $0.isTracked }
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

    /// How often a file is looked at whose name changes while others are told of it.
    private static let mostAttempts = 8

    /// Whether presenters hear of what happens to a file, under any of its names.
    func hasInterestedPresenter(_ node: Node) -> Bool {
        let item = node.item
        return engine.hasInterestedPresenter(of: item, at: place(of: node))
            || node.otherNames.contains {
                engine.hasInterestedPresenter(of: item, at: places.place($0.name, in: $0.directory))
            }
    }

    /// Where a file is, with the name it has there now: who is told may ask for it when it has another.
    func place(of node: Node) -> Place {
        let (name, parent) = node.state.withLock { ($0.name, $0.parent) }
        return parent.map { places.place(name, in: $0) } ?? Place()
    }

    func noteChange(
        of node: Node, _ access: Access, under claim: ClaimID? = nil, byThread thread: Int32
    ) {
        noteChange(of: node, access, under: claim) { processes.currentParty(ofThread: thread) }
    }

    /// Somebody is about to be given a handle. If others hear of what is written through it, who that is is found out
    /// while they wait: when the handle is closed they may be gone, and the change would be nobody's.
    ///
    /// Returns whether others hear of it.
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

    /// A handle is about to be closed.
    func noteChange(by handle: Handle) {
        guard engine.hasAwareClients, handle.hasChanged else { return }
        if !handle.hasClaim, writerMonitor.hasTold(handle) { return }
        let claim = handle.hasClaim ? handle.currentClaim : nil
        let baseline = handle.state.withLock { $0.baseline }
        noteChange(of: handle.node, handle.access, under: claim, since: baseline) { handle.identify() }
    }

    /// A file or a directory has another name. What is followed at it or below it is held by its new way.
    func noteMove(
        of node: Node, from: NameChange, to: NameChange, isSecondHalf: Bool = false,
        under claim: ClaimID? = nil
    ) {
        documents.noteMoved(node)
        tellMove(of: node, from: from, to: to, isSecondHalf: isSecondHalf, under: claim)
    }

    /// Claims follow a move into another directory, and all that is below a directory follows that: the engine hears
    /// of these though nobody is told.
    ///
    /// `document` has the new name already, and goes on under it.
    func tellMove(
        of node: Node, from: NameChange, to: NameChange, over document: ItemID? = nil,
        isSecondHalf: Bool = false, under claim: ClaimID? = nil
    ) {
        // One around the mount was not expected.
        if engine.hasAwareClients { places.beginRename(of: node, from: from.known) }
        defer { places.endRename(of: node) }
        noteNames(of: node)
        publishDeferredDeletion(at: to)
        let item = node.item
        guard engine.hasAwareClients, !from.isPrivate || !to.isPrivate else {
            let isPlaced = node.state.withLock { $0.registeredItem != nil }
            guard isPlaced || (node.kind != S_IFDIR && from.directory !== to.directory) else { return }
            let move = Move(from: places.place(in: from.directory), to: places.place(in: to.directory))
            return engine.noteMove(of: item, move, by: .nobody) { places.endRename(of: node) }
        }
        var move = Move(
            from: places.place(from.name, in: from.directory), to: places.place(to.name, in: to.directory),
            over: document, isSecondHalf: isSecondHalf)
        // A helper file's name is not known to those who follow the directory: the file appears to them.
        if from.isPrivate, !node.state.withLock({ $0.isTracked }) { move.from = Place() }
        if let left = documentLeft(at: from, by: item) {
            move.placeholder = left.item
            // By then whoever goes on with the name follows it.
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

    /// What the former name of an item is from now on, if somebody waits to replace what has it.
    private func documentLeft(at from: NameChange, by item: ItemID) -> TrackedFile? {
        guard engine.awaitsReplacement(item) else { return nil }
        return documents.track(makeItem(), at: .names([from.name], in: from.directory, former: nil))
    }

    /// There is a new name.
    func noteCreation(of node: Node, _ change: NameChange, under claim: ClaimID? = nil) {
        publishDeferredDeletion(at: change)
        guard engine.hasAwareClients, !change.isPrivate else { return }
        defer { watchWriters(of: node) }
        // One more name of a document is nothing to those who show it by another one.
        let isOther =
            node.state.withLock { $0.isTracked } && !node.isCalled(change.name, in: change.directory)
        let (item, place) = (
            isOther ? makeItem() : node.item, places.place(change.name, in: change.directory)
        )
        guard engine.hasInterestedPresenter(of: item, at: place) else { return }
        engine.noteCreation(
            of: item, at: place, by: party(behind: change), under: claim)
    }

    /// A name is gone, and no step of a save took it.
    func noteDeletion(of node: Node, _ change: NameChange, under claim: ClaimID? = nil) {
        guard engine.hasAwareClients, !change.isPrivate else { return }
        let (item, place) = (node.item, places.place(change.name, in: change.directory))
        guard engine.hasInterestedPresenter(of: item, at: place) else { return }
        engine.noteDeletion(
            of: item, at: place, by: party(behind: change), under: claim)
    }

    /// The same of something that nobody has known, and so has no number.
    func noteDeletion(ofUnknown change: NameChange) {
        guard engine.hasAwareClients, !change.isPrivate else { return }
        let (item, place) = (makeItem(), places.place(change.name, in: change.directory))
        guard engine.hasInterestedPresenter(of: item, at: place) else { return }
        engine.noteDeletion(of: item, at: place, by: party(behind: change))
    }

    private func party(behind change: NameChange) -> Party {
        change.isOutOfBand ? .outOfBand : processes.currentParty(ofThread: change.caller.thread)
    }

    /// What tells whether others have heard of what a file is now. Whoever follows it hears of that.
    private func stamp(
        of node: Node, _ item: ItemID, by party: Party, isOngoing: Bool, since baseline: Stamp?
    ) -> UInt64 {
        do throws(Errno) {
            let status = try node.descriptor().descriptor.status()
            let (look, isTimeRacy) = (TrackedFile.FileSnapshot(status), isTimeRacy(status))
            documents.noteReported(item, as: look)
            guard isOngoing else {
                if let baseline {
                    noteOther(node, look.stamp, since: baseline, by: party, isDoubtful: isTimeRacy)
                }
                return look.stamp.number
            }
            // Its program may write once more before the clock of the file system shows it.
            return isTimeRacy ? Engine.now.nanoseconds : look.stamp.number
        } catch {
            // A file that cannot be looked at is taken to have changed.
            return Engine.now.nanoseconds
        }
    }

    /// A file has other names now, or one more or less: that nobody takes this for something that was done to a document.
    func noteNames(of node: Node) {
        guard node.kind == S_IFREG, engine.hasAwareClients, node.state.withLock({ $0.isTracked }) else {
            return
        }
        do throws(Errno) {
            let look = TrackedFile.FileSnapshot(try node.descriptor().descriptor.status())
            documents.noteRenamed(node.item, as: look)
        } catch {
            // Then it is told once too often, if the kernel loses events.
            return
        }
    }
}

extension NameChange {
    /// Whether the name is that of a program's own helper file, which is nobody else's business.
    ///
    /// So are the files that a database keeps beside itself, which come and go with each commit.
    var isPrivate: Bool { known.isPrivate }
    var known: NodeName { NodeName(name: name, directory: directory) }
}

extension NodeName {
    /// The same.
    fileprivate var isPrivate: Bool {
        switch Node.itemClass(of: name, in: directory) {
        case .private: true
        case .database: ItemClass.isDatabaseCompanion(name.bytes)
        case .document, .log, .background: false
        }
    }
}

extension Handle {
    /// Whether others find something else in the file, or under its name, than before it was opened.
    fileprivate var hasChanged: Bool {
        if truncates || state.withLock({ $0.fillsName }) { return true }
        return mayWrite && mayHaveWritten
    }
}
