// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// The programs that a save concerns, before the document's name is missing.
extension SaveLifecycle {
    /// How many users of a document are checked; a single unrelated program decides.
    private static let mostUsers = 64

    /// Whether any program other than the saver may use the document; a fast check before all others.
    func mayConcernOthers(_ node: Node) -> Bool {
        engine.hasAwareClients || node.isOpen
    }

    /// Assesses a save. It counts as a save only if it concerns other programs; otherwise the name is gone at once.
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

    /// Whether taking a document's name away may be the first step of a save without further evidence.
    ///
    /// Only presenters of the document would lose by not waiting. A program that holds an access to move or delete it
    /// has announced that step.
    func mayBeSaved(_ node: Node, in directory: Node, by thread: Int32) -> Bool {
        guard engine.hasAwareClients, engine.isPresented(node.item), node.itemClass == .document,
            !engine.awaitsReplacement(node.item)
        else { return false }
        let party = processes.currentParty(ofThread: thread)
        return !engine.isWithinAccess(party, of: node.item, at: places.place(in: directory))
    }

    /// Does the same for a move.
    func mayBeSaved(_ node: Node, in directory: Node, onto target: Node?, by thread: Int32) -> Bool {
        // Two presented documents become a single document then, whichever program saves.
        if let target, documents.isTracked(target.item) { return false }
        return mayBeSaved(node, in: directory, by: thread)
            && !processes.programs.replacesFromElsewhere(processes.program(ofThread: thread))
    }

    /// Whether a program unrelated to a thread has a document open, or waits for it.
    private func isUsed(_ node: Node, besides thread: Int32) -> Bool {
        let users = engine.claimants(on: node.item, atMost: Self.mostUsers)
        guard !users.isEmpty else { return false }
        let party = processes.currentParty(ofThread: thread)
        return users.contains { !$0.identify().isExempt(from: party) }
    }

    /// Whether a thread works for a presenter of the file that still owes an answer. Most likely it saves.
    func isAnswering(_ thread: Int32, about node: Node) -> Bool {
        guard engine.hasAwareClients, engine.isPresented(node.item) else { return false }
        return engine.owesAnswer(processes.currentParty(ofThread: thread), about: node.item)
    }

    /// Notes makers of a possible save step that have ended since: only for a short time after that may another process finish
    /// the save. Only relatives of the saver are checked.
    func noteEndedMakers(besides saver: SavingProcess, of change: NameChange) {
        let directory = NodeNumber(change.directory.id.rawValue)
        let makers = saves.makers(ofHelperFilesOf: change.name.bytes, in: directory, for: saver)
        let ended = makers.filter { !processes.isAlive($0) }
        guard !ended.isEmpty else { return }
        saves.change { state in for process in ended { state.saveDetector.noteExited(process) } }
    }
}
