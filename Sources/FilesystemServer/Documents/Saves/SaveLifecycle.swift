// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import VersionStore

/// Manages names that are missing in the middle of a save. Look-ups of such a name by other programs wait until a file has the
/// name again.
final class SaveLifecycle: Sendable {
    let context: MountContext
    let preserver: ContentPreserver
    let cleanWriters: CleanWriters
    let events: DocumentEvents
    let identity: DocumentIdentity
    let engine: Engine
    let processes: ProcessResolver
    let nodes: NodeTable
    let places: PlaceRegistry
    let saves: SaveTracker
    let documents: DocumentTable

    init(
        _ context: MountContext, _ tree: FileTree, _ preserver: ContentPreserver, _ saves: SaveTracker,
        _ cleanWriters: CleanWriters, _ events: DocumentEvents, _ identity: DocumentIdentity
    ) {
        self.context = context
        self.preserver = preserver
        self.cleanWriters = cleanWriters
        self.events = events
        self.identity = identity
        engine = context.engine
        processes = context.processes
        nodes = tree.nodes
        places = tree.places
        self.saves = saves
        documents = events.documents
    }

    /// How often the daemon checks whether the programs with pending saves have ended.
    private static let watchInterval = TimeSpan.milliseconds(50)

    /// Whether a program may still put a file under the missing name. The program must be alive. It must not have taken
    /// away several names without making new files, because such a program is removing files.
    func isSavePending(_ pendingSave: PendingSave) -> Bool {
        // A presenter that was asked to save may start one program after another for the save. So the save may continue
        // although one of these programs has ended.
        let isAlive = pendingSave.evidence == .presenter || processes.isAlive(pendingSave.saver.process)
        return isAlive && !saves.areManyDepartures(by: pendingSave)
    }

    /// Opens a pending save for a name that a program has just taken away. The program's request is answered after this call.
    ///
    /// If the document's file was moved (`isGone` is false), the file is remembered, because it may become the document again.
    /// A removed file is not remembered: its other links are not the document (D20).
    func openPendingSave(
        _ name: NameBytes, in directory: Node, of node: Node, isGone: Bool, by saver: SavingProcess,
        evidence: PendingSave.Evidence, audience: PendingSave.Audience, thread: Int32
    ) {
        let document = node.item
        // First make a claim on the document, because programs that wait for the document must continue to wait. Then move the
        // holders of the old file to a new item. In the opposite order, waiting claims would be granted between the two steps.
        let claim = engine.makeClaimID()
        let pendingSave = PendingSave(
            directory: NodeNumber(directory.id.rawValue), name: name.bytes, document: document,
            oldNode: NodeNumber(node.id.rawValue), saver: saver, evidence: evidence,
            audience: audience, thread: thread, opened: Engine.now, claim: claim)
        let subject = PendingSaveClaimant(
            NameSubject(name, in: directory, thread: thread),
            party: processes.currentParty(ofThread: thread))
        _ = engine.claim(
            ClaimRequest(
                claim, .pendingSave,
                ClaimRequest.Part(document, .write(.updating), at: places.place(in: directory))), by: subject)
        engine.identify(claim, as: subject.identify())
        documents.vacate(
            document, at: node, awaiting: name, in: directory, former: isGone ? nil : node)
        let orphan = context.makeItem()
        engine.vacate(document, orphan: orphan)
        nodes.renumber(node, as: orphan)
        let (isOpen, forgotten): (Bool, FillOutcome?) = saves.change { state in
            // An older pending save of this name may still be open. If so, a file has got the name after that save
            // began, and the daemon has missed this.
            let forgotten = state.pendingSaves.resolveFill(
                pendingSave.name, in: pendingSave.directory, by: nil)
            return (state.pendingSaves.open(pendingSave), forgotten)
        }
        if let forgotten { closePendingSave(forgotten.pendingSave, because: .expired) }
        guard isOpen else {
            identity.abandonName(of: pendingSave, by: subject)
            return engine.end(claim)
        }
        engine.journal.note(.vacated, at: Engine.now, claim: claim, by: subject)
        watchPendingSaves()
    }

    /// Closes a pending save. Ends its claim on the document, and makes the kernel repeat the look-ups that wait for the name.
    func closePendingSave(_ pendingSave: PendingSave, because end: PendingSave.End) {
        if pendingSave.evidence != .move {
            let claimant = engine.claimant(of: pendingSave.claim)
            engine.journal.note(end.step, at: Engine.now, claim: pendingSave.claim, by: claimant)
            if end == .expired {
                identity.abandonName(of: pendingSave, by: claimant)
                noteDeletion(of: pendingSave)
            }
            engine.end(pendingSave.claim)
        }
        let directory = NodeID(pendingSave.directory.rawValue)
        saves.forgetListings(waitingFor: pendingSave.claim)
        saves.publishResolved(pendingSave.name, in: directory)
        saves.publishProgress(in: directory)
    }

    /// Notes in the history that a document is deleted: its name was taken away as if in a save, and no file has got it.
    private func noteDeletion(of pendingSave: PendingSave) {
        guard context.history.isRecording,
            let directory = nodes[NodeID(pendingSave.directory.rawValue)]
        else { return }
        let caller = Caller(user: OwnProcess.user, group: 0, thread: pendingSave.thread, umask: 0)
        context.history.note(
            .removed(FileRights(user: OwnProcess.user, group: 0, mode: 0o600, accessControlList: nil)),
            NameChange(NameBytes(pendingSave.name), in: directory, caller: caller),
            by: Author(program: [], process: pendingSave.saver.process.number))
    }

    /// Notes that a thread has taken a document's name away. If the thread has taken away several names in this
    /// directory without making new files, it is not saving. Look-ups then stop waiting for these names.
    func noteDeparture(of change: NameChange) {
        guard change.caller.thread > 0 else { return }
        let (thread, directory) = (change.caller.thread, change.directory.id)
        let number = NodeNumber(directory.rawValue)
        let now = Engine.now
        saves.noteRemoved(change.name.bytes, from: number, by: thread, at: now)
        // The following steps are needed only if a program may wait for a missing name.
        guard !saves.hasNoPendingSaves,
            saves.areManyDepartures(by: thread, from: number, at: now)
        else { return }
        let given = saves.pendingSaves(in: number).filter { $0.thread == thread }
        for pendingSave in given { saves.publishResolved(pendingSave.name, in: directory) }
        saves.publishProgress(in: directory)
    }

    /// Notes that a thread has put an item under a name.
    func noteArrival(of name: NameBytes, in directory: Node, by thread: Int32) {
        saves.noteFilled(name.bytes, in: NodeNumber(directory.id.rawValue), by: thread)
    }

    /// Closes a pending save that has expired. If the file or its directory may be on a network, another thread closes the
    /// pending save, because a wait would delay all other timers.
    private func closeAside(_ pendingSave: PendingSave) {
        let files = [pendingSave.directory, pendingSave.oldNode].compactMap { nodes[NodeID($0.rawValue)] }
        guard let distant = files.first(where: \.isDistant) else {
            return closePendingSave(pendingSave, because: .expired)
        }
        context.work(on: distant) { [self] in closePendingSave(pendingSave, because: .expired) }
    }

    /// Prolongs the pending saves of a program, because the program makes a request on the mount.
    func noteSaveActivity(by thread: Int32) {
        guard !saves.hasNoPendingSaves, thread > 0, let saver = processes.saver(ofThread: thread) else {
            return
        }
        saves.change { $0.noteActivity(by: saver, at: Engine.now) }
    }

    /// Begins regular checks of the pending saves, unless the checks have begun already.
    func watchPendingSaves() {
        if saves.beginWatching() { scheduleWatch() }
    }

    private func scheduleWatch() {
        engine.timers.schedule(at: (Engine.now + Self.watchInterval).nanoseconds) { [self] in
            let gone = saves.savers.filter { !processes.isAlive($0.process) }
            let (closed, isDone): ([PendingSave], Bool) = saves.change { state in
                let closed =
                    state.pendingSaves.takeExpired(at: Engine.now)
                    + gone.flatMap { state.pendingSaves.takeExited($0.process) }
                state.moved.expire(at: Engine.now, gone: gone.map(\.process))
                state.isWatched = !state.pendingSaves.isEmpty || !state.moved.isEmpty
                return (closed, !state.isWatched)
            }
            for pendingSave in closed { closeAside(pendingSave) }
            if !isDone { scheduleWatch() }
        }
    }

    /// Ends the step in which a name is taken away. By now the pending save is open, or the name was not taken away.
    func endStep(in directory: Node) {
        saves.endStep(in: directory.id)
        saves.publishProgress(in: directory.id)
    }

    /// The document that is missing under this name in the middle of a save. Nil if a file by `saver` would not be the next
    /// contents of the document.
    func savedDocument(at change: NameChange, by saver: SavingProcess?) -> ItemID? {
        guard !saves.hasNoPendingSaves else { return nil }
        let pendingSave = saves.pendingSave(
            of: change.name.bytes, in: NodeNumber(change.directory.id.rawValue), for: nil)
        return pendingSave.flatMap { $0.evidence != .move && $0.isSaved(by: saver) ? $0.document : nil }
    }
}

/// Makes the claim on a document while its name is missing in the middle of a save.
final class PendingSaveClaimant: Claimant {
    private let subject: NameSubject
    private let party: Party

    init(_ subject: NameSubject, party: Party) {
        self.subject = subject
        self.party = party
    }

    var attribution: Attribution { subject.attribution }
    var intents: [Intent] { [Intent(.write(.updating), to: attribution.path)] }
    func identify() -> Party { party }
    /// The engine never calls this function, because it observes only claimants that are handles.
    func observe() -> Observation { .emptied }
}

extension PendingSave.End {
    fileprivate var step: JournalEntry.Step {
        switch self {
        case .filled: .filled
        case .rolledBack: .rolledBack
        case .expired: .windowClosed
        }
    }
}
