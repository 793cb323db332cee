// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Evaluates the rules of required locks and lock queues on the model, without any index.
///
/// Some answers depend on choices that the rules leave open, or on state inside the arbiter. For such an answer, the query has
/// the parameter `certain`. With `certain` the query returns true only if true is the answer in all cases.
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

    /// Returns the directories above an item, from the nearest directory to the root.
    func above(_ item: ItemID, _ place: Place) -> [ItemID] {
        var found: [ItemID] = []
        var next = directories[item].map(\.parent) ?? place.directory
        while let directory = next, found.count < 64 {
            found.append(directory)
            next = directories[directory]?.parent
        }
        return found
    }

    func isPackage(_ item: ItemID) -> Bool { directories[item]?.isPackage ?? false }

    /// Returns the outermost package at or above an item; nil if there is none.
    func outermostPackage(_ item: ItemID, _ place: Place) -> ItemID? {
        ([item] + above(item, place)).last(where: isPackage)
    }

    /// S1 to S3: returns the locks that a claim requires, each to read or to write.
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
            // Only plain directories have a lock on their contents; a package is locked as a whole.
            for directory in above.reversed() {
                if isPackage(directory) { break }
                lock(.contents(directory), false, isContents: true)
            }
        }
        return requiredLocks
    }

    /// Whether two claims require a lock on the same resource, at least one of them to write.
    ///
    /// With `onWrites` the second claim must write. With `onBoth` both claims must write.
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
                    // S4: the read lock of an aware claim certainly keeps a name change waiting. The read lock of an unaware
                    // claim does so only in some cases.
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

    /// X6: handles of one item are compatible if all their programs lock the file, or if one appends and the other appends or
    /// reads.
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

    /// X4: whether a suspended writer still blocks another writer, because one of the two is not identified yet.
    func isHeldBack(_ claim: ClaimModel, by holder: ClaimModel, certain: Bool) -> Bool {
        guard holder.suspension != nil, holder.party == nil || claim.party == nil,
            !areExempt(holder, claim)
        else { return false }
        return meet(holder, claim, certain: certain, onBoth: true)
    }

    /// Q3: whether a waiting claim waits for a party, directly, through a presenter's answer, or in a chain of waiting claims.
    ///
    /// With `certain`, an answer counts only if the claim certainly waits for it (P6).
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
                // G4: a name change does not wait for a handle. So it is not certain that the name change waits for the
                // handle's program.
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

    /// P6: whether a claim waits for the answer to a question.
    private func isOwed(_ question: Question, to claim: ClaimModel, certain: Bool) -> Bool {
        if certain { return askers[question.id] == claim.id }
        guard let presenterModel = presenterModels[question.presenter] else { return false }
        return lastStructuralChange >= claim.number || concerns(presenterModel, claim)
    }

    /// Whether a claim blocks another claim, which waits or is about to wait.
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

/// Relates presenters to the claims that concern them.
extension WorldModel {
    enum ModelRelation { case of, packageAbove, plainAbove, below }

    /// P5: whether an access of the party is treated as the presenter's own.
    func isOwn(_ party: Party, _ presenterModel: PresenterModel) -> Bool {
        if let purpose = party.purpose { return purpose == presenterModel.party.purpose }
        return party.process != nil && party.process == presenterModel.party.process
    }

    /// Returns the position of a presenter relative to an item; nil if neither is above the other.
    func position(of presenterModel: PresenterModel, to item: ItemID, _ place: Place) -> ModelRelation? {
        guard let shown = presenterModel.item else { return nil }
        if shown == item { return .of }
        if above(item, place).contains(shown) { return isPackage(shown) ? .packageAbove : .plainAbove }
        return above(shown, presenterModel.place).contains(item) ? .below : nil
    }

    /// Whether a presenter can be asked about a claim, so that the claim waits for the answer.
    func concerns(_ presenterModel: PresenterModel, _ entry: ClaimModel) -> Bool {
        entry.parts.contains { position(of: presenterModel, to: $0.item, $0.place) != nil }
    }

    /// Whether two parties are one program (Terms in the Rules).
    static func areOneProgram(_ one: Party, _ other: Party) -> Bool {
        // Two parties without a known process are equal. They count as one program, because they can be the same program.
        if one == other { return true }
        if let purpose = one.purpose, let otherPurpose = other.purpose { return purpose == otherPurpose }
        guard let process = one.process, let otherProcess = other.process else { return false }
        return process == otherProcess || one.ancestors.contains(otherProcess)
            || other.ancestors.contains(process)
    }
}
