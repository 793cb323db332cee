// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// Which programs a document concerns whose name is about to be missing.
extension CoordinatedFilesystem {
    /// How many of those that have a document are looked at: one that is no relative of the actor decides.
    private static let mostUsers = 64

    /// Whether any program but the one that takes the name away may have to do with the document: what is asked first.
    func mayConcernOthers(_ node: Node) -> Bool {
        engine.hasAwareClients || node.state.withLock { $0.opens > 0 }
            || expectedRetries.hasWaitingOpen(node.item)
    }

    /// What looks like a save is one only if it concerns others: else the name is gone at once.
    func save(
        by saver: SavingProcess, _ evidence: PendingSave.Evidence?, of node: Node, in directory: Node,
        _ thread: Int32
    ) -> SaveAssessment {
        guard let evidence, let audience = audience(of: node, in: directory, besides: thread) else {
            return SaveAssessment(saver: saver, evidence: nil, audience: .listeners)
        }
        return SaveAssessment(saver: saver, evidence: evidence, audience: audience)
    }

    private func audience(of node: Node, in directory: Node, besides thread: Int32) -> PendingSave.Audience? {
        if engine.hasAwareClients, engine.isPresented(node.item) { return .users }
        if isUsed(node, besides: thread) { return .users }
        let hasInterestedPresenter =
            engine.hasAwareClients
            && engine.hasInterestedPresenter(of: node.item, at: places.place(in: directory))
        return hasInterestedPresenter ? .listeners : nil
    }

    /// Whether taking a document's name away may be the first step of a save though nothing but the step says so. Only those that
    /// present it lose something if that is not waited for. A program that holds an access to move or delete it has said what it
    /// does.
    func mayBeSaved(_ node: Node, in directory: Node, by thread: Int32) -> Bool {
        guard engine.hasAwareClients, engine.isPresented(node.item), node.itemClass == .document,
            !engine.awaitsReplacement(node.item)
        else { return false }
        let party = processes.currentParty(ofThread: thread)
        return !engine.isWithinAccess(party, of: node.item, at: places.place(in: directory))
    }

    /// The same of a move.
    func mayBeSaved(_ move: RenameOperation, by thread: Int32) -> Bool {
        // What two programs present is one document from then on, whichever of them saves.
        if let target = move.target, documents.isTracked(target.item) { return false }
        return mayBeSaved(move.node, in: move.from.directory, by: thread)
            && !processes.programs.replacesFromElsewhere(processes.program(ofThread: thread))
    }

    /// Whether a program that is no relative of a thread's has a document open, or waits for it.
    private func isUsed(_ node: Node, besides thread: Int32) -> Bool {
        let users = engine.claimants(on: node.item, atMost: Self.mostUsers)
        guard !users.isEmpty else { return false }
        let party = processes.currentParty(ofThread: thread)
        return users.contains { !$0.identify().isExempt(from: party) }
    }
}
