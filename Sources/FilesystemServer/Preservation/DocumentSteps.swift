// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem

/// What a request that changes names does to a document.
enum DocumentStep: Sendable {
    /// A file is renamed over the document.
    case replaces(Node, by: Node)
    /// The document exchanges its name with another file.
    case exchanges(Node, with: Node)
    /// The document loses this name. `isLast` says whether the file has no other name then.
    case vacates(Node, EntryName, isLast: Bool)

    var node: Node {
        switch self {
        case .replaces(let node, _), .exchanges(let node, _), .vacates(let node, _, _): node
        }
    }
}

/// A step on names that concerns several programs, and what its program knows of the document.
///
/// This is a class, because a struct of this size would be copied at each call.
final class ReviewedStep: Sendable {
    let step: DocumentStep
    let review: ChangeReview
    /// The contents that the program gave the new file, if ``SaveMerger`` has replaced them by merged contents.
    let merged: [UInt8]?

    init(_ step: DocumentStep, _ review: ChangeReview, merged: [UInt8]? = nil) {
        self.step = step
        self.review = review
        self.merged = merged
    }
}

extension UnseenOverwrites {
    /// After this time, a document whose name was taken away no longer waits for a new file.
    private static let vacatedCheck = TimeSpan.seconds(11)

    /// Whether a step on names may concern another program, or a merge. If not, the step needs no review.
    func mayConcern(_ step: DocumentStep?, by thread: Int32) -> Bool {
        guard let step else { return false }
        return context.policies.mergesSaves || concerns(step.node, by: thread)
    }

    /// Called before a step on names. Returns nil if no other program is concerned.
    func review(_ step: DocumentStep?, by thread: Int32) -> ReviewedStep? {
        guard let step, let review = review(step.node, by: thread) else { return nil }
        return ReviewedStep(step, review)
    }

    /// Prepares a step on names after its review. Returns false if the step must not be taken. May block.
    func prepare(
        _ reviewed: ReviewedStep, by subject: any JournalSubject, thread: Int32, isPreserved: Bool
    ) -> Bool {
        // A file that is only renamed keeps another name, under which a program may write to it. So it is copied.
        let mayLink =
            switch reviewed.step {
            case .replaces: true
            case .exchanges: false
            case .vacates(_, _, let isLast): isLast
            }
        return prepare(
            reviewed.review, by: subject, thread: thread, mayLink: mayLink, isPreserved: isPreserved)
    }

    /// Called when a step on names was taken.
    func publish(_ reviewed: ReviewedStep) {
        let review = reviewed.review
        switch reviewed.step {
        case .replaces(_, let node):
            let suspicions = sightings.noteReplaced(review, by: node)
            settleSoon(suspicions.own, by: node)
            settleSoon(suspicions.others, by: review.node)
        case .exchanges(_, let node):
            settleSoon(sightings.noteExchanged(review, with: node), by: node)
        case .vacates(let node, let name, let isLast):
            let suspicions = sightings.noteVacated(review, name, isLast: isLast)
            dropSoon(suspicions.gone, of: node)
            settleSoon(suspicions.others, by: node)
            confirmSoon(suspicions.crowded, of: node)
            if review.view.isUnseen { dropVacatedLater(node) }
        }
    }

    /// Called when a step on names has failed.
    func abandon(_ reviewed: ReviewedStep) {
        guard reviewed.review.view.isUnseen, let saver = reviewed.review.opener?.anchor else { return }
        let suspicions = sightings.change(reviewed.step.node) { document, _ in
            document.takeSuspicions(of: saver)
        }
        dropSoon(suspicions ?? [], of: reviewed.step.node)
    }

    /// Called when a file has got a name. If this name was taken away from a document a moment before, the file is the document's
    /// file from now on. `isSaved` says whether the file has its contents already. Returns the suspicions that these contents
    /// decide.
    func noteArrival(
        of node: Node, as name: NameBytes, in directory: Node, by thread: Int32, isSaved: Bool
    ) -> [Suspicion] {
        guard sightings.hasVacatedNames else { return [] }
        let (gone, isFilled) = sightings.noteArrival(of: node, name, in: directory)
        dropSoon(gone, of: node)
        if isFilled, !isSaved, isMerged(node, by: thread), hasSuspicions(node) { merges.expect(node.id) }
        guard isFilled, isSaved else { return [] }
        return sightings.noteFilled(node, byProcess: context.processes.process(ofOpener: thread))
    }

    /// Reads the contents that a save has left, and settles the versions on a worker.
    func settleSoon(_ suspicions: [Suspicion], by node: Node) {
        guard !suspicions.isEmpty else { return }
        let saved = contents(of: node, for: suspicions)
        context.work(on: node, for: .preserving) { [self] in settle(suspicions, by: saved, at: node.path) }
    }

    func dropSoon(_ suspicions: [Suspicion], of node: Node) {
        guard !suspicions.isEmpty else { return }
        context.work(on: node, for: .preserving) { [self] in drop(suspicions) }
    }

    /// Makes conflicts of versions: it is not known whether a save gives their documents new files.
    private func confirmSoon(_ suspicions: [Suspicion], of node: Node) {
        guard !suspicions.isEmpty else { return }
        context.work(on: node, for: .preserving) { [self] in confirm(suspicions, at: []) }
    }

    private func dropVacatedLater(_ node: Node) {
        context.engine.timers.schedule(at: (Engine.now + Self.vacatedCheck).nanoseconds) { [self] in
            dropSoon(sightings.dropOldVacated(), of: node)
        }
    }
}
