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

    func isPackage(_ item: ItemID) -> Bool { directories[item]?.isPackage ?? false }

    /// The outermost package at or above an item.
    func unit(_ item: ItemID, _ place: Place) -> ItemID? {
        ([item] + above(item, place)).last(where: isPackage)
    }

    /// S1 to S3: what is staked, and whether to write.
    func stakes(_ entry: Entry) -> [Thing: Bool] {
        var stakes: [Thing: Bool] = [:]
        if entry.isBatch { return stakes }
        func stake(_ thing: Thing, _ isWrite: Bool) { stakes[thing] = isWrite || stakes[thing] ?? false }
        for part in entry.parts {
            let above = above(part.item, part.place)
            stake(.item(part.item), part.access.isWrite)
            if let unit = ([part.item] + above).last(where: isPackage) {
                stake(.item(unit), part.access.isWrite)
            } else if part.access.isStructural, directories[part.item] != nil {
                stake(.contents(part.item), true)
            }
            // Plain are those with no package at or above them.
            for directory in above.reversed() {
                if isPackage(directory) { break }
                stake(.contents(directory), false)
            }
        }
        return stakes
    }

    /// On what two claims meet, and whether each stakes it to write.
    func meetings(_ one: Entry, _ other: Entry, certain: Bool) -> [(isWrite: Bool, otherIsWrite: Bool)] {
        let (stakes, others) = (stakes(one), stakes(other))
        return stakes.compactMap { thing, isWrite in
            guard let otherIsWrite = others[thing], isWrite || otherIsWrite else { return nil }
            if case .contents = thing, certain, isWrite != otherIsWrite {
                // S4: a change of names enters those of aware claims, and of those who come later; others may be
                // entered on somebody else's account.
                let (writer, reader) = isWrite ? (one, other) : (other, one)
                if writer.nature == .nameChange, reader.nature != .aware { return nil }
            }
            return (isWrite, otherIsWrite)
        }
    }

    func areExempt(_ one: Entry, _ other: Entry) -> Bool {
        guard let party = one.party, let otherParty = other.party else { return false }
        return party.isExempt(from: otherParty)
    }

    func keepsOut(_ holder: Entry, _ claim: Entry, certain: Bool) -> Bool {
        if areExempt(holder, claim) { return false }
        switch holder.suspension {
        case nil: return !meetings(holder, claim, certain: certain).isEmpty
        case .idle: return meetings(holder, claim, certain: certain).contains { $0.otherIsWrite }
        default: return false
        }
    }

    /// X4.
    func isHeldBack(_ claim: Entry, by holder: Entry, certain: Bool) -> Bool {
        guard holder.suspension != nil, holder.party == nil || claim.party == nil else { return false }
        return meetings(holder, claim, certain: certain).contains { $0.isWrite && $0.otherIsWrite }
    }

    /// Q3; P6 only as far as it is asked what is possible.
    func isHeldUp(_ waiter: Entry, by party: Party?, certain: Bool, _ depth: Int = 0) -> Bool {
        guard let party, depth < 32 else { return false }
        if !certain, isDebtor(party) { return true }
        for other in claims.values where other.id != waiter.id {
            if other.isHeld {
                if let owner = other.party, owner.isExempt(from: party),
                    keepsOut(other, waiter, certain: certain)
                {
                    return true
                }
            } else if other.id < waiter.id, !areExempt(other, waiter),
                !meetings(other, waiter, certain: certain).isEmpty,
                isHeldUp(other, by: party, certain: certain, depth + 1)
            {
                return true
            }
        }
        return false
    }

    /// Whether somebody works for a presenter that owes an answer.
    func isDebtor(_ party: Party) -> Bool {
        questions.values.contains { question in
            showings[question.presenter].map { party.works(for: $0.party) } ?? false
        }
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
            !meetings(other, claim, certain: certain).isEmpty
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
        if let purpose = one.purpose, let otherPurpose = other.purpose { return purpose == otherPurpose }
        guard let process = one.process, let otherProcess = other.process else { return false }
        return process == otherProcess || one.ancestors.contains(otherProcess)
            || other.ancestors.contains(process)
    }
}
