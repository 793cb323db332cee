// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The position of a presenter relative to an item that is accessed.
enum PresenterRelation: Hashable, Sendable {
    /// The presenter shows the item itself.
    case item
    /// The presenter shows a package above the item.
    case package
    /// The presenter shows a directory above the item that is no package.
    case directory
    /// The presenter shows an item below the accessed item.
    case below
}

/// P16 to P21: Which presenters a claim concerns.
extension Arbiter {
    /// Whether presenters may have to be asked for a claim, or may receive notices because of it.
    func concernsPresenters(_ claim: Claim) -> Bool {
        if registry.isEmpty || claim.nature == .pendingSave { return false }
        return claim.firstOfParts { part in
            var isConcerned = false
            forEachConcerned(by: part, of: claim) { _, _ in isConcerned = true }
            return isConcerned ? true : nil
        } ?? false
    }

    /// Calls the body with each presenter that a part of a claim concerns, in no order.
    func forEachConcerned(
        by part: ClaimRequest.Part, of claim: Claim, _ body: (PresenterID, PresenterRelation) -> Void
    ) {
        registry.forEachConcerned(by: part.item, where: { isOfThisName($0, part) }) { body($0, .item) }
        // P18: Presenters of directories above the item that are no packages are asked only about deletions.
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
        // P17, B2: Three kinds of claims concern the presenters of items below the accessed item: announced batches of
        // accesses, writes that need a whole directory, and accesses to packages.
        guard
            claim.nature == .batch || part.access.isStructural
                || tree.outermostPackage(of: part.item, at: part.place) != nil
        else {
            return
        }
        forEachPresenter(below: part.item) { if !registry.isMuted($0) { body($0, .below) } }
    }

    /// P18: Whether a presenter implements the question about the deletion of an item in its directory.
    private func isAgreeing(_ id: PresenterID) -> Bool {
        registry.records[id]?.presenter.messages.contains(.accommodateSubitemDeletion) ?? false
    }

    /// P19: Whether a part concerns the name that a presenter shows. A deletion, move or replacement concerns only one
    /// name of an item; other accesses concern all names.
    func isOfThisName(_ id: PresenterID, _ part: ClaimRequest.Part) -> Bool {
        guard part.access.isStructural else { return true }
        return registry.records[id]?.place.isSameName(as: part.place) ?? false
    }

    /// Calls the body with the presenters of all items below an item. Skips directories that have no presenter below
    /// them.
    func forEachPresenter(below item: ItemID, _ body: (PresenterID) -> Void) {
        var unexplored = [item]
        while let directory = unexplored.popLast() {
            guard tree.presentersBelow(directory) > 0 else { continue }
            registry.byDirectory[directory]?.forEach(body)
            unexplored += tree.directories(in: directory)
        }
    }
}

/// The questions of a claim to one presenter.
struct QuestionPlan {
    /// The questions, each with the access that causes it.
    var questionKinds: [(questionKind: QuestionKind, access: Access)] = []
    /// P20: The access of which the presenter is told: a write if any part of the claim writes.
    var access: Access
    /// Whether the presenter is told of the access even if it need not be asked.
    var isNotified = false
    /// P12: Items that the claim writes without a question to the presenter.
    var unaskedWrites: [ItemID] = []

    mutating func add(_ more: [QuestionKind], for access: Access, isNotified: Bool) {
        if access.isWrite, !self.access.isWrite { self.access = access }
        self.isNotified = self.isNotified || isNotified
        for questionKind in more where !questionKinds.contains(where: { $0.questionKind == questionKind }) {
            questionKinds.append((questionKind, access))
        }
    }

    /// P3, P20: The questions in the order in which they are asked; those to relinquish come first. A question to
    /// relinquish to a writer replaces a question to relinquish to a reader.
    var inOrder: [(questionKind: QuestionKind, access: Access)] {
        let first =
            questionKinds.first { $0.questionKind.request == .relinquishToWriter }
            ?? questionKinds.first { $0.questionKind.request == .relinquishToReader }
        let saves = questionKinds.filter { $0.questionKind.request == .save }
        return (first.map { [$0] } ?? []) + saves
            + questionKinds.filter { $0.questionKind.request.isDeletion }
    }
}
