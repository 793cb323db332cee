// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The rules of stakes and ways once more, naively, over what the ledger says.
///
/// Where the rules leave room, or what is needed cannot be known from outside, a question has two answers: what is
/// `certain`, and what is possible.
extension Ledger {
    enum Thing: Hashable {
        case item(ItemID)
        case contents(ItemID)
    }

    struct Stake {
        let thing: Thing
        var isWrite: Bool
        let isContents: Bool
    }

    /// The directories an item is in, from the nearest to the root.
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
    func isPlain(_ item: ItemID) -> Bool { directories[item] != nil && unit(item, Place()) == nil }

    func isPackage(_ item: ItemID) -> Bool { directories[item]?.isPackage ?? false }

    /// The outermost package at or above an item.
    func unit(_ item: ItemID, _ place: Place) -> ItemID? {
        ([item] + above(item, place)).last(where: isPackage)
    }

    /// S1 to S3: what is staked, and whether to write.
    func stakes(_ entry: Entry) -> [Stake] {
        var stakes: [Stake] = []
        if entry.isBatch { return stakes }
        func stake(_ thing: Thing, _ isWrite: Bool, isContents: Bool = false) {
            if let index = stakes.firstIndex(where: { $0.thing == thing }) {
                stakes[index].isWrite = stakes[index].isWrite || isWrite
            } else {
                stakes.append(Stake(thing: thing, isWrite: isWrite, isContents: isContents))
            }
        }
        for part in entry.parts {
            let above = above(part.item, part.place)
            stake(.item(part.item), part.access.isWrite)
            if let unit = ([part.item] + above).last(where: isPackage) {
                stake(.item(unit), part.access.isWrite)
            } else if part.access.isStructural, directories[part.item] != nil {
                stake(.contents(part.item), true, isContents: true)
            }
            // Plain are those with no package at or above them.
            for directory in above.reversed() {
                if isPackage(directory) { break }
                stake(.contents(directory), false, isContents: true)
            }
        }
        return stakes
    }

    /// Whether two claims meet, and on something the second stakes to write if that is asked.
    func meet(_ one: Entry, _ other: Entry, certain: Bool, onWrites: Bool = false, onBoth: Bool = false)
        -> Bool
    {
        for stake in one.stakes {
            for second in other.stakes where second.thing == stake.thing {
                guard stake.isWrite || second.isWrite else { continue }
                if onWrites, !second.isWrite { continue }
                if onBoth, !(stake.isWrite && second.isWrite) { continue }
                if stake.isContents, certain, stake.isWrite != second.isWrite {
                    // S4: a change of names enters those of aware claims, and of those who come later; others may
                    // be entered on somebody else's account.
                    let (writer, reader) = stake.isWrite ? (one, other) : (other, one)
                    if writer.nature == .nameChange, reader.nature != .aware { continue }
                }
                return true
            }
        }
        return false
    }

    func areExempt(_ one: Entry, _ other: Entry) -> Bool {
        if areAtEase(one, other) { return true }
        guard let party = one.party, let otherParty = other.party else { return false }
        return party.isExempt(from: otherParty)
    }

    /// X6.
    private func areAtEase(_ one: Entry, _ other: Entry) -> Bool {
        guard one.nature == .handle, other.nature == .handle, one.parts[0].item == other.parts[0].item else {
            return false
        }
        let isPrefixEnough = { (entry: Entry) in entry.conduct.contains(.appends) || entry.onlyReads }
        return one.conduct.contains(.locks) && other.conduct.contains(.locks)
            || one.conduct.contains(.appends) && isPrefixEnough(other)
            || other.conduct.contains(.appends) && isPrefixEnough(one)
    }

    func keepsOut(_ holder: Entry, _ claim: Entry, certain: Bool) -> Bool {
        if areExempt(holder, claim) { return false }
        switch holder.suspension {
        case nil: return meet(holder, claim, certain: certain)
        case .idle, .unchanged: return meet(holder, claim, certain: certain, onWrites: true)
        default: return false
        }
    }

    /// X4.
    func isHeldBack(_ claim: Entry, by holder: Entry, certain: Bool) -> Bool {
        guard holder.suspension != nil, holder.party == nil || claim.party == nil,
            !areExempt(holder, claim)
        else { return false }
        return meet(holder, claim, certain: certain, onBoth: true)
    }

    /// Q3; P6 only as far as it is asked what is possible.
    func isHeldUp(_ waiter: Entry, by party: Party?, certain: Bool) -> Bool {
        guard let party else { return false }
        let debts = questions.values.filter { question in
            showings[question.presenter].map { party.works(for: $0.party) } ?? false
        }
        let theirs = claims.values.filter { $0.isHeld && $0.party?.isExempt(from: party) ?? false }
        if theirs.isEmpty && debts.isEmpty { return false }
        var (unexplored, seen) = ([waiter], Set([waiter.id]))
        while let next = unexplored.popLast() {
            if debts.contains(where: { isOwed($0, to: next, certain: certain) }) { return true }
            let isTheirs = theirs.contains {
                // G4: whether a handle holds up a change of names, which does not wait for it, is a matter of words.
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

    /// P6: presenters whose own it would be what somebody did now, because they owe an answer.
    func creditors(of party: Party, answering: QuestionID?) -> Set<PresenterID> {
        var found: Set<PresenterID> = []
        for question in questions.values where isForItsSake(party, answering: answering, question) {
            found.insert(question.presenter)
        }
        return found
    }

    /// P6: with a purpose, only what is said to be for the answer.
    func isForItsSake(_ party: Party, answering: QuestionID?, _ question: Question) -> Bool {
        guard let showing = showings[question.presenter], party.works(for: showing.party) else {
            return false
        }
        return party.purpose == nil || answering == question.id
    }

    /// P6: whether a claim waits for this answer.
    private func isOwed(_ question: Question, to claim: Entry, certain: Bool) -> Bool {
        if certain { return askers[question.id] == claim.id }
        guard let showing = showings[question.presenter] else { return false }
        return upheaval >= claim.number || concerns(showing, claim)
    }

    /// Whether one claim stands in the way of another that waits, or is about to.
    func standsInTheWay(_ other: Entry, of claim: Entry, certain: Bool) -> Bool {
        if other.id == claim.id || claim.nature == .episode || claim.isBatch { return false }
        if claim.nature == .nameChange {
            return other.isHeld && other.nature == .aware && keepsOut(other, claim, certain: certain)
        }
        if other.isHeld {
            return keepsOut(other, claim, certain: certain)
                || isHeldBack(claim, by: other, certain: certain)
        }
        guard other.id < claim.id, !claim.passes, !areExempt(other, claim),
            meet(other, claim, certain: certain)
        else { return false }
        return !isHeldUp(other, by: claim.party, certain: !certain)
    }
}

/// Presenters and what they are concerned with.
extension Ledger {
    enum Position { case of, packageAbove, plainAbove, below }

    /// P5.
    func isOwn(_ party: Party, _ showing: Showing) -> Bool {
        if let purpose = party.purpose { return purpose == showing.party.purpose }
        return party.process != nil && party.process == showing.party.process
    }

    /// Where a presenter is with respect to an item; nil if nowhere.
    func position(of showing: Showing, to item: ItemID, _ place: Place) -> Position? {
        guard let shown = showing.item else { return nil }
        if shown == item { return .of }
        if above(item, place).contains(shown) { return isPackage(shown) ? .packageAbove : .plainAbove }
        return above(shown, showing.place).contains(item) ? .below : nil
    }

    /// Presenters whose answer a claim may wait for.
    func concerns(_ showing: Showing, _ entry: Entry) -> Bool {
        entry.parts.contains { position(of: showing, to: $0.item, $0.place) != nil }
    }

    /// Whether two parties are one program (Terms).
    static func areOneProgram(_ one: Party, _ other: Party) -> Bool {
        // Nobody at all may be the same nobody.
        if one == other { return true }
        if let purpose = one.purpose, let otherPurpose = other.purpose { return purpose == otherPurpose }
        guard let process = one.process, let otherProcess = other.process else { return false }
        return process == otherProcess || one.ancestors.contains(otherProcess)
            || other.ancestors.contains(process)
    }
}
