// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The rules of required locks and lock queues, evaluated naively on the model.
///
/// Some answers depend on choices that the rules leave open, or on state that is not visible outside. A query then has
/// two answers: a `certain` one and a possible one.
extension WorldModel {
    enum ModelResource: Hashable {
        case item(ItemID)
        case contents(ItemID)
    }

    struct ModelLock {
        let thing: ModelResource
        var isWrite: Bool
        let isContents: Bool
    }

    /// The directories above an item, from the nearest to the root.
    func above(_ item: ItemID, _ place: Place) -> [ItemID] {
        var found: [ItemID] = []
        var next = directories[item].map(\.parent) ?? place.directory
        while let directory = next, found.count < 64 {
            found.append(directory)
            next = directories[directory]?.parent
        }
        return found
    }

    /// Whether an item is a directory in no package.
    func isPlain(_ item: ItemID) -> Bool {
        directories[item] != nil && outermostPackage(item, Place()) == nil
    }

    func isPackage(_ item: ItemID) -> Bool { directories[item]?.isPackage ?? false }

    /// The outermost package at or above an item.
    func outermostPackage(_ item: ItemID, _ place: Place) -> ItemID? {
        ([item] + above(item, place)).last(where: isPackage)
    }

    /// S1 to S3: the required locks, each to read or to write.
    func requiredLocks(_ entry: ClaimModel) -> [ModelLock] {
        var requiredLocks: [ModelLock] = []
        if entry.isBatch { return requiredLocks }
        func lock(_ thing: ModelResource, _ isWrite: Bool, isContents: Bool = false) {
            if let index = requiredLocks.firstIndex(where: { $0.thing == thing }) {
                requiredLocks[index].isWrite = requiredLocks[index].isWrite || isWrite
            } else {
                requiredLocks.append(ModelLock(thing: thing, isWrite: isWrite, isContents: isContents))
            }
        }
        for part in entry.parts {
            let above = above(part.item, part.place)
            lock(.item(part.item), part.access.isWrite)
            if let outermostPackage = ([part.item] + above).last(where: isPackage) {
                lock(.item(outermostPackage), part.access.isWrite)
            } else if part.access.isStructural, directories[part.item] != nil {
                lock(.contents(part.item), true, isContents: true)
            }
            // Plain directories have no package at or above them.
            for directory in above.reversed() {
                if isPackage(directory) { break }
                lock(.contents(directory), false, isContents: true)
            }
        }
        return requiredLocks
    }

    /// Whether the required locks of two claims overlap, and on a write lock of the second if `onWrites` is set.
    func meet(
        _ one: ClaimModel, _ other: ClaimModel, certain: Bool, onWrites: Bool = false, onBoth: Bool = false
    )
        -> Bool
    {
        for lock in one.requiredLocks {
            for second in other.requiredLocks where second.thing == lock.thing {
                guard lock.isWrite || second.isWrite else { continue }
                if onWrites, !second.isWrite { continue }
                if onBoth, !(lock.isWrite && second.isWrite) { continue }
                if lock.isContents, certain, lock.isWrite != second.isWrite {
                    // S4: a name change conflicts with the read locks of aware claims and of later claims only. Others
                    // may be entered for another claim.
                    let (writer, reader) = lock.isWrite ? (one, other) : (other, one)
                    if writer.nature == .nameChange, reader.nature != .aware { continue }
                }
                return true
            }
        }
        return false
    }

    func areExempt(_ one: ClaimModel, _ other: ClaimModel) -> Bool {
        if areCompatible(one, other) { return true }
        guard let party = one.party, let otherParty = other.party else { return false }
        return party.isExempt(from: otherParty)
    }

    /// X6.
    private func areCompatible(_ one: ClaimModel, _ other: ClaimModel) -> Bool {
        guard one.nature == .handle, other.nature == .handle, one.parts[0].item == other.parts[0].item else {
            return false
        }
        let isPrefixEnough = { (entry: ClaimModel) in
            entry.accessPattern.contains(.appends) || entry.onlyReads
        }
        return one.accessPattern.contains(.locks) && other.accessPattern.contains(.locks)
            || one.accessPattern.contains(.appends) && isPrefixEnough(other)
            || other.accessPattern.contains(.appends) && isPrefixEnough(one)
    }

    func keepsOut(_ holder: ClaimModel, _ claim: ClaimModel, certain: Bool) -> Bool {
        if areExempt(holder, claim) { return false }
        switch holder.suspension {
        case nil: return meet(holder, claim, certain: certain)
        case .idle, .unchanged: return meet(holder, claim, certain: certain, onWrites: true)
        default: return false
        }
    }

    /// X4.
    func isHeldBack(_ claim: ClaimModel, by holder: ClaimModel, certain: Bool) -> Bool {
        guard holder.suspension != nil, holder.party == nil || claim.party == nil,
            !areExempt(holder, claim)
        else { return false }
        return meet(holder, claim, certain: certain, onBoth: true)
    }

    /// Q3; P6 applies only if `certain` is false.
    func isHeldUp(_ waiter: ClaimModel, by party: Party?, certain: Bool) -> Bool {
        guard let party else { return false }
        let debts = questions.values.filter { question in
            presenterModels[question.presenter].map { party.works(for: $0.party) } ?? false
        }
        let theirs = claims.values.filter { $0.isHeld && $0.party?.isExempt(from: party) ?? false }
        if theirs.isEmpty && debts.isEmpty { return false }
        var (unexplored, seen) = ([waiter], Set([waiter.id]))
        while let next = unexplored.popLast() {
            if debts.contains(where: { isOwed($0, to: next, certain: certain) }) { return true }
            let isTheirs = theirs.contains {
                // G4: a name change does not wait for a handle, so the rules do not say whether a handle holds it up.
                (!certain || next.nature != .nameChange || $0.nature == .aware)
                    && keepsOut($0, next, certain: certain)
            }
            if isTheirs { return true }
            for other in claims.values
            where !other.isHeld && other.id < next.id && !seen.contains(other.id) && !areExempt(other, next)
                && meet(other, next, certain: certain)
            {
                seen.insert(other.id)
                unexplored.append(other)
            }
        }
        return false
    }

    /// P6: the presenters to which a change by the party would belong now, because it owes their answer.
    func owedPresenters(of party: Party, answering: QuestionID?) -> Set<PresenterID> {
        var found: Set<PresenterID> = []
        for question in questions.values where isOnItsBehalf(party, answering: answering, question) {
            found.insert(question.presenter)
        }
        return found
    }

    /// P6: for a party with a purpose, only claims declared as part of the answer count.
    func isOnItsBehalf(_ party: Party, answering: QuestionID?, _ question: Question) -> Bool {
        guard let presenterModel = presenterModels[question.presenter], party.works(for: presenterModel.party)
        else {
            return false
        }
        return party.purpose == nil || answering == question.id
    }

    /// P6: whether a claim waits for this answer.
    private func isOwed(_ question: Question, to claim: ClaimModel, certain: Bool) -> Bool {
        if certain { return askers[question.id] == claim.id }
        guard let presenterModel = presenterModels[question.presenter] else { return false }
        return lastStructuralChange >= claim.number || concerns(presenterModel, claim)
    }

    /// Whether a claim blocks another that waits or is about to wait.
    func standsInTheWay(_ other: ClaimModel, of claim: ClaimModel, certain: Bool) -> Bool {
        if other.id == claim.id || claim.nature == .pendingSave || claim.isBatch { return false }
        if claim.nature == .nameChange {
            return other.isHeld && other.nature == .aware && keepsOut(other, claim, certain: certain)
        }
        if other.isHeld {
            return keepsOut(other, claim, certain: certain)
                || isHeldBack(claim, by: other, certain: certain)
        }
        guard other.id < claim.id, !claim.overtakes, !areExempt(other, claim),
            meet(other, claim, certain: certain)
        else { return false }
        return !isHeldUp(other, by: claim.party, certain: !certain)
    }
}

/// Presenters and the claims that concern them.
extension WorldModel {
    enum ModelRelation { case of, packageAbove, plainAbove, below }

    /// P5.
    func isOwn(_ party: Party, _ presenterModel: PresenterModel) -> Bool {
        if let purpose = party.purpose { return purpose == presenterModel.party.purpose }
        return party.process != nil && party.process == presenterModel.party.process
    }

    /// The position of a presenter relative to an item; nil if unrelated.
    func position(of presenterModel: PresenterModel, to item: ItemID, _ place: Place) -> ModelRelation? {
        guard let shown = presenterModel.item else { return nil }
        if shown == item { return .of }
        if above(item, place).contains(shown) { return isPackage(shown) ? .packageAbove : .plainAbove }
        return above(shown, presenterModel.place).contains(item) ? .below : nil
    }

    /// Whether a claim may wait for the answer of a presenter.
    func concerns(_ presenterModel: PresenterModel, _ entry: ClaimModel) -> Bool {
        entry.parts.contains { position(of: presenterModel, to: $0.item, $0.place) != nil }
    }

    /// Whether two parties are one program (Terms).
    static func areOneProgram(_ one: Party, _ other: Party) -> Bool {
        // Two unknown parties may be the same program.
        if one == other { return true }
        if let purpose = one.purpose, let otherPurpose = other.purpose { return purpose == otherPurpose }
        guard let process = one.process, let otherProcess = other.process else { return false }
        return process == otherProcess || one.ancestors.contains(otherProcess)
            || other.ancestors.contains(process)
    }
}
