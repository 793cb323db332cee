// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Decides which document a file belongs to after a rename. The file stays with its document, or gets the document that
/// had the new name, or two documents exchange their contents.
final class DocumentRename: Sendable {
    private let events: DocumentEvents
    private let identity: DocumentIdentity
    private let saveLifecycle: SaveLifecycle
    private let engine: Engine
    private let processes: ProcessResolver
    private let places: PlaceRegistry
    private let saves: SaveTracker
    private let documents: DocumentTable

    init(
        _ context: MountContext, _ tree: FileTree, _ saves: SaveTracker, _ events: DocumentEvents,
        _ identity: DocumentIdentity, _ saveLifecycle: SaveLifecycle
    ) {
        self.saves = saves
        self.events = events
        self.identity = identity
        self.saveLifecycle = saveLifecycle
        engine = context.engine
        processes = context.processes
        places = tree.places
        documents = events.documents
    }

    /// Called after a rename. Updates the nodes, documents and pending saves, and sends the events.
    func publish(_ move: RenameFacts, _ save: SaveAssessment?, under claim: ClaimID?) {
        // If both names are hard links to the same file, rename(2) does nothing, as POSIX demands.
        let node = move.node
        guard move.target !== node else { return }
        let thread = move.from.caller.thread
        // Presenters know a file by only one of its names. A rename of another name does not concern them.
        let isKnown = !node.isTracked(elsewhereThan: move.from, move.status)
        if move.isExchange { return exchange(move, node, isKnown: isKnown, under: claim) }
        let isMoved = isKnown && !(save?.keepsName ?? false)
        if let save, save.keepsName, let evidence = save.evidence {
            // The pending save is opened before the file gets its new name. So the document stays with the old name,
            // and the renamed file no longer belongs to it.
            saveLifecycle.openPendingSave(
                move.from.name, in: move.from.directory, of: node, isGone: false, by: save.saver,
                evidence: evidence, audience: save.audience, thread: thread)
        }
        let awaited =
            move.status.isRegularFile ? saveLifecycle.savedDocument(at: move.to, by: save?.saver) : nil
        if isMoved, engine.hasAwareClients { places.beginRename(of: node, from: move.from.known) }
        // Events contain the file's name. So the node gets the new name before any event is sent.
        if isKnown {
            identity.rename(node, to: move.to, isOneOfSeveral: move.isOneOfSeveral)
        } else {
            node.noteOtherName(move.to.name, in: move.to.directory)
        }
        node.lostOtherName(move.from.name, in: move.from.directory)
        var isUpdate = false
        if let target = move.target, let status = move.targetStatus {
            identity.removeName(
                target, move.to.name, in: move.to.directory,
                wasLast: status.linkCount <= 1 || status.isDirectory)
            // The presenters of this file know it by another name. So the file takes over the replaced document only if
            // a program follows that document. The file then belongs to both documents.
            isUpdate = move.isUpdate && (isKnown || documents.isTracked(target.item))
            if isUpdate {
                if isMoved {
                    events.tellMove(of: node, from: move.from, to: move.to, over: target.item, under: claim)
                }
                identity.takeOver(node, from: target)
            } else if !move.isOverOtherLink {
                identity.loseDocument(of: target, called: move.to, under: claim)
            }
        }
        documents.noteMoved(node)
        if isUpdate {
            engine.placePresenters(of: node.item)
            events.noteChange(of: node, .write(.updating), under: claim, byThread: thread)
        } else if isMoved {
            events.tellMove(of: node, from: move.from, to: move.to, over: awaited, under: claim)
        } else {
            // The file is a backup of a document that stays with its name, or presenters know the file by another name.
            // For presenters of the directory, the new name is a new file.
            events.noteCreation(of: node, move.to, under: claim)
        }
        if !isKnown { events.noteDeletion(ofUnknown: move.from) }
        if isMoved, let save, save.evidence == .move {
            saveLifecycle.openPendingSave(ofMoved: node, called: move.from, by: save.saver)
        }
        fillName(of: move, node, save, under: claim)
    }

    /// A document may be waiting for a file under the new name. Decides whether the renamed file becomes this document.
    private func fillName(
        of move: RenameFacts, _ node: Node, _ save: SaveAssessment?, under claim: ClaimID?
    ) {
        let number = NodeNumber(node.id.rawValue)
        let newPlace = NodeNumber(move.to.directory.id.rawValue)
        let (rolledBack, fill): (PendingSave?, FillOutcome?) = saves.change { state in
            if move.isUpdate {
                state.saveDetector.forget(number)
            } else {
                state.saveDetector.noteRenamed(
                    number, to: move.to.name.bytes, in: newPlace, at: Engine.now)
            }
            if let back = state.pendingSaves.resolveRollback(
                number, to: move.to.name.bytes, in: newPlace, by: save?.saver)
            {
                return (back, nil)
            }
            let fill = state.pendingSaves.resolveFill(
                move.to.name.bytes, in: newPlace, by: save?.saver, isFile: move.status.isRegularFile)
            return (nil, fill)
        }
        if let rolledBack {
            if rolledBack.evidence != .move { identity.adopt(rolledBack.document, by: node) }
            return saveLifecycle.closePendingSave(rolledBack, because: .rolledBack)
        }
        let isTakenBack = saveLifecycle.restoreDocument(
            move.to.name, in: move.to.directory, with: node, by: save?.saver, move.from.caller)
        let isDocument: Bool
        if isTakenBack {
            isDocument = true
        } else if let fill, fill.pendingSave.evidence != .move, identity.fillName(of: fill, with: node) {
            isDocument = true
        } else {
            // If the waiting document has no presenter, no event of a change is needed: the event of the move is
            // enough.
            //
            // Whether it has a presenter is read before the name gets the file. After that, presenters of the moved
            // file would count as presenters of the document.
            let awaiting = documents.awaiting(move.to.name, in: move.to.directory)
            let isShown = awaiting.map(engine.isPresented) ?? false
            let isAwaited = identity.fillAwaited(move.to.name, in: move.to.directory, with: node) {
                processes.currentParty(ofThread: move.from.caller.thread)
            }
            isDocument = isAwaited && isShown
        }
        if isDocument {
            events.noteChange(
                of: node, .write(.updating), under: claim, byThread: move.from.caller.thread)
        }
        if let fill { saveLifecycle.closePendingSave(fill.pendingSave, because: .filled) }
    }

    private func exchange(_ move: RenameFacts, _ node: Node, isKnown: Bool, under claim: ClaimID?) {
        guard let target = move.target else {
            if isKnown { identity.rename(node, to: move.to, isOneOfSeveral: move.isOneOfSeveral) }
            return
        }
        let isTargetKnown = !move.isOverOtherLink
        if isKnown, isTargetKnown, [node, target].allSatisfy({ $0.kind == S_IFREG }) {
            return exchangeContents(of: move, node, target, under: claim)
        }
        if isKnown { identity.rename(node, to: move.to, isOneOfSeveral: move.isOneOfSeveral) }
        if isTargetKnown { identity.rename(target, to: move.from, isOneOfSeveral: move.isTargetOneOfSeveral) }
        if isKnown { events.noteMove(of: node, from: move.from, to: move.to, under: claim) }
        if isTargetKnown {
            events.noteMove(of: target, from: move.to, to: move.from, isSecondHalf: isKnown, under: claim)
        }
        if !isKnown { noteOtherName(move.to, insteadOf: move.from, of: node, under: claim) }
        if !isTargetKnown { noteOtherName(move.from, insteadOf: move.to, of: target, under: claim) }
    }

    /// Notes a new name of a file. Presenters know the file by another name.
    private func noteOtherName(
        _ change: NameChange, insteadOf former: NameChange, of node: Node, under claim: ClaimID?
    ) {
        node.noteOtherName(change.name, in: change.directory)
        node.lostOtherName(former.name, in: former.directory)
        events.noteCreation(of: node, change, under: claim)
    }

    /// Called when two documents have exchanged their files. Each document stays with its name, and gets the other
    /// document's contents. Some programs save in this way (D20).
    private func exchangeContents(
        of move: RenameFacts, _ node: Node, _ target: Node, under claim: ClaimID?
    ) {
        let (document, other) = (node.item, target.item)
        // Both documents are separated from their files before one of them takes the other's file. See
        // `tellOfExchanges`.
        identity.part(node, from: move.from.name, in: move.from.directory)
        identity.part(target, from: move.to.name, in: move.to.directory)
        identity.rename(node, to: move.to, isOneOfSeveral: move.isOneOfSeveral)
        identity.rename(target, to: move.from, isOneOfSeveral: move.isTargetOneOfSeveral)
        identity.adopt(other, by: node)
        identity.adopt(document, by: target)
        for file in [node, target] {
            events.noteChange(of: file, .write(.updating), under: claim, byThread: move.from.caller.thread)
        }
    }
}
