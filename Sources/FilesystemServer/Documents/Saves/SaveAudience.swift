// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// Decides, before the document's name is taken away, which other programs a save concerns.
extension SaveLifecycle {
    /// The largest number of programs with the document that are checked. The check ends at the first program that is
    /// not related to the saving program.
    private static let mostUsers = 64

    /// Whether a program other than the saving program may use the document. This check is fast, so it comes before other
    /// checks.
    func mayConcernOthers(_ node: Node) -> Bool {
        engine.hasAwareClients || node.isOpen
    }

    /// Assesses a step that takes a name away and is perhaps a step of a save. If no other program is concerned, the step
    /// counts as a move or a deletion.
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

    /// Whether a program may be about to save a document, if it takes the document's name away and nothing else indicates a
    /// save.
    ///
    /// This is so only if a program presents the document. A program that moves or deletes the document within an access over
    /// the control socket has announced the step. Such a step is no save.
    func mayBeSaved(_ node: Node, in directory: Node, by thread: Int32) -> Bool {
        guard engine.hasAwareClients, engine.isPresented(node.item), node.itemClass == .document,
            !engine.awaitsReplacement(node.item)
        else { return false }
        let party = processes.currentParty(ofThread: thread)
        return !engine.isWithinAccess(party, of: node.item, at: places.place(in: directory))
    }

    /// Whether the move of a document may be the first step of a save, if nothing else indicates a save.
    func mayBeSaved(_ node: Node, in directory: Node, onto target: Node?, by thread: Int32) -> Bool {
        // If `target` is tracked as well, the move makes two presented documents one document, and is no step of a save.
        if let target, documents.isTracked(target.item) { return false }
        return mayBeSaved(node, in: directory, by: thread)
            && !processes.programs.replacesFromElsewhere(processes.program(ofThread: thread))
    }

    /// Whether a program that is not related to the thread's program has the document open, or waits for it.
    private func isUsed(_ node: Node, besides thread: Int32) -> Bool {
        let users = engine.claimants(on: node.item, atMost: Self.mostUsers)
        guard !users.isEmpty else { return false }
        let party = processes.currentParty(ofThread: thread)
        return users.contains { !$0.identify().isExempt(from: party) }
    }

    /// Whether the thread's program belongs to a presenter that was asked about the file and has not answered yet. In this case
    /// the program most likely saves the document.
    func isAnswering(_ thread: Int32, about node: Node) -> Bool {
        guard engine.hasAwareClients, engine.isPresented(node.item) else { return false }
        return engine.owesAnswer(processes.currentParty(ofThread: thread), about: node.item)
    }

    /// Notes which makers of the document's helper files have ended. After the end of a maker, a relative can complete the
    /// maker's save only for a short time.
    ///
    /// Only the makers that are relatives of the saving program are checked.
    func noteEndedMakers(besides saver: SavingProcess, of change: NameChange) {
        let directory = NodeNumber(change.directory.id.rawValue)
        let makers = saves.makers(ofHelperFilesOf: change.name.bytes, in: directory, for: saver)
        let ended = makers.filter { !processes.isAlive($0) }
        guard !ended.isEmpty else { return }
        saves.change { state in for process in ended { state.saveDetector.noteExited(process) } }
    }
}
