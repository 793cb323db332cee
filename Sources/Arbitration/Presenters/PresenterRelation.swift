// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The relation of a presenter to an item of an access.
enum PresenterRelation: Hashable, Sendable {
    /// It presents the item.
    case item
    /// It presents a package above.
    case package
    /// It presents a plain directory above.
    case directory
    /// It presents an item below.
    case below
}

/// Which presenters a claim concerns (P16 to P21).
extension Arbiter {
    /// Whether presenters may have to be asked, or told of a claim's changes.
    func concernsPresenters(_ claim: Claim) -> Bool {
        if registry.isEmpty || claim.nature == .pendingSave { return false }
        return claim.firstOfParts { part in
            var isConcerned = false
            forEachConcerned(by: part, of: claim) { _, _ in isConcerned = true }
            return isConcerned ? true : nil
        } ?? false
    }

    /// Calls the body with each presenter that a part concerns, in no order.
    func forEachConcerned(
        by part: ClaimRequest.Part, of claim: Claim, _ body: (PresenterID, PresenterRelation) -> Void
    ) {
        registry.forEachConcerned(by: part.item, where: { isOfThisName($0, part) }) { body($0, .item) }
        // P18.
        let isDeletion = claim.deletes(part) && registry.agreeingToDeletions > 0
        if tree.packages > 0 || isDeletion {
            for directory in tree.ancestors(of: part.item, at: part.place) {
                let relation: PresenterRelation = tree.isPackage(directory) ? .package : .directory
                if relation == .package {
                    registry.forEachConcerned(by: directory) { body($0, relation) }
                } else if isDeletion {
                    for id in registry.unmutedPresenters(to: directory) where isAgreeing(id) {
                        body(id, relation)
                    }
                }
            }
        }
        // P17, B2.
        guard
            claim.nature == .batch || part.access.isStructural
                || tree.outermostPackage(of: part.item, at: part.place) != nil
        else {
            return
        }
        forEachPresenter(below: part.item) { if !registry.isMuted($0) { body($0, .below) } }
    }

    /// P18.
    private func isAgreeing(_ id: PresenterID) -> Bool {
        registry.records[id]?.presenter.messages.contains(.accommodateSubitemDeletion) ?? false
    }

    /// P19.
    func isOfThisName(_ id: PresenterID, _ part: ClaimRequest.Part) -> Bool {
        guard part.access.isStructural else { return true }
        return registry.records[id]?.place.isSameName(as: part.place) ?? false
    }

    /// Calls the body with the presenters of items below an item; skips directories without any.
    func forEachPresenter(below item: ItemID, _ body: (PresenterID) -> Void) {
        var unexplored = [item]
        while let directory = unexplored.popLast() {
            guard tree.presentersBelow(directory) > 0 else { continue }
            registry.byDirectory[directory]?.forEach(body)
            unexplored += tree.directories(in: directory)
        }
    }
}

/// The questions of a claim for one presenter.
struct QuestionPlan {
    /// The questions, with the accesses that cause them.
    var questionKinds: [(questionKind: QuestionKind, access: Access)] = []
    /// The access that the presenter is told of; a write if any part writes (P20).
    var access: Access
    /// Whether the presenter is told of it even if it need not be asked.
    var isNotified = false
    /// Items written without the questions that they would need (P12).
    var unaskedWrites: [ItemID] = []

    mutating func add(_ more: [QuestionKind], for access: Access, isNotified: Bool) {
        if access.isWrite, !self.access.isWrite { self.access = access }
        self.isNotified = self.isNotified || isNotified
        for questionKind in more where !questionKinds.contains(where: { $0.questionKind == questionKind }) {
            questionKinds.append((questionKind, access))
        }
    }

    /// P3, P20: The questions in order; relinquishing comes first, and to a writer it includes readers.
    var inOrder: [(questionKind: QuestionKind, access: Access)] {
        let first =
            questionKinds.first { $0.questionKind.request == .relinquishToWriter }
            ?? questionKinds.first { $0.questionKind.request == .relinquishToReader }
        let saves = questionKinds.filter { $0.questionKind.request == .save }
        return (first.map { [$0] } ?? []) + saves
            + questionKinds.filter { $0.questionKind.request.isDeletion }
    }
}
