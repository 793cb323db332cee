// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What presenters are told, and when.
extension Arbiter {
    /// N1: contents or attributes were written.
    mutating func noteChange(
        of item: ItemID, _ cause: Cause, under id: ClaimID?, stamp: UInt64, _ effects: inout [Effect]
    ) {
        let party = id.flatMap { parties[$0] } ?? cause.party
        // Told when it was suspended (N4).
        if let id, let told = claims[id]?.toldStamp, told == stamp { return }
        let silent = id.flatMap { desk.inquiries[$0]?.silent } ?? []
        for presenter in desk.presented[item] ?? [] {
            guard let record = desk.records[presenter] else { continue }
            if isOwn(party, record.presenter.party) || silent.contains(presenter) {
                noteSave(by: presenter)
                continue
            }
            if id == nil, isForItsSake(party, record) { continue }
            note(Cause(party, cause.access), at: record, &effects) { $0.hasChanged = true }
        }
    }
    /// P6: whether somebody works for a presenter that owes an answer.
    private func isForItsSake(_ party: Party, _ record: PresenterRecord) -> Bool {
        party.works(for: record.presenter.party) && desk.owesAnything(record.id)
    }

    /// P9: what a presenter writes soon after it was asked to save is the save.
    private mutating func noteSave(by id: PresenterID) {
        guard let asked = desk.records[id]?.saveAsked, now < asked + bounds.save else { return }
        desk.records[id]?.saved = now
    }

    /// N2: the item is called something else now.
    mutating func noteMove(of item: ItemID, by party: Party, _ effects: inout [Effect]) {
        for presenter in desk.presented[item] ?? [] {
            guard let record = desk.records[presenter], !isOwn(party, record.presenter.party),
                !isForItsSake(party, record)
            else { continue }
            note(Cause(party, .write(.forMoving)), at: record, &effects) { $0.hasMoved = true }
        }
    }

    private mutating func note(
        _ cause: Cause, at record: PresenterRecord, _ effects: inout [Effect], _ body: (inout Turn) -> Void
    ) {
        endTrailingTurns(of: record, but: cause.party, &effects)
        let id =
            presentTurn(of: cause.party, isWrite: true, at: record, &effects)
            ?? makeTurn(with: record.id, cause.party, cause.access)
        guard let entry = desk.turns.index(forKey: id) else { return }
        body(&desk.turns.values[entry])
        desk.turns.values[entry].cause = cause
        if desk.turns.values[entry].members.isEmpty { beginTrailing(id) }
    }

    /// P2: what began like a save was a deletion, and is put to those who have relinquished already.
    mutating func noteLoss(of item: ItemID, by party: Party, _ effects: inout [Effect]) {
        for presenter in desk.presented[item] ?? [] {
            // P5: of those who work for a presenter it is not asked.
            guard let record = desk.records[presenter], !isOwn(party, record.presenter.party),
                !party.works(for: record.presenter.party), !record.isDemoted,
                record.presenter.messages.contains(.accommodateDeletion)
            else { continue }
            let cause = Cause(party, .write(.forDeleting))
            let id =
                desk.turn(of: party, isWrite: true, at: record)
                ?? makeTurn(with: presenter, party, cause.access)
            guard let entry = desk.turns.index(forKey: id),
                !desk.turns.values[entry].wants(.accommodateDeletion), !desk.turns.values[entry].isUnanswered
            else { continue }
            desk.turns.values[entry].wanted.append(.accommodateDeletion)
            desk.turns.values[entry].isLost = true
            desk.turns.values[entry].cause = cause
            desk.turns.values[entry].end = nil
            askNext(in: id, &effects)
        }
    }
}

/// How turns end.
extension Arbiter {
    /// A claim is over, or lets others pass: it belongs to no turn any more.
    ///
    /// N3: at once if whoever it was said so, else `trailing` later, so that a save in several steps is one turn.
    mutating func leaveTurns(_ id: ClaimID, atOnce: Bool, _ effects: inout [Effect]) {
        guard let inquiry = desk.inquiries.removeValue(forKey: id) else { return }
        for turn in inquiry.turns {
            guard let entry = desk.turns.index(forKey: turn) else { continue }
            desk.turns.values[entry].members.removeAll { $0 == id }
            guard desk.turns.values[entry].members.isEmpty else { continue }
            // P3: nobody is left to be asked for.
            if !desk.turns.values[entry].isLost { desk.turns.values[entry].wanted = [] }
            if atOnce || !desk.turns.values[entry].hasAnythingToSay {
                endTurn(turn, &effects)
            } else {
                beginTrailing(turn)
            }
        }
    }

    mutating func beginTrailing(_ id: TurnID) {
        guard let entry = desk.turns.index(forKey: id) else { return }
        // An answer that is owed to nobody any more is not waited for, but for a deletion's.
        if desk.turns.values[entry].question != nil,
            desk.turns.values[entry].cause.access == .write(.forDeleting)
        {
            return
        }
        let end = now + bounds.trailing
        desk.turns.values[entry].end = end
        alarms.insert(Alarms.Alarm(moment: end, subject: .turn(id)))
    }

    /// N5: before a presenter hears of somebody else it is told what is over.
    mutating func endTrailingTurns(
        of record: PresenterRecord, but party: Party, _ effects: inout [Effect]
    ) {
        for id in record.turns {
            guard let turn = desk.turns[id], turn.end != nil, !turn.party.isOneProgram(with: party) else {
                continue
            }
            endTurn(id, &effects)
        }
    }

    /// N3: the turn in which an access of a party belongs, if there is one.
    ///
    /// A program that comes again and again would keep its presenters away for ever: a turn that has lasted
    /// `hold` is over as soon as nobody is in it.
    mutating func presentTurn(
        of party: Party, isWrite: Bool, at record: PresenterRecord, _ effects: inout [Effect]
    ) -> TurnID? {
        guard let id = desk.turn(of: party, isWrite: isWrite, at: record), let turn = desk.turns[id] else {
            return nil
        }
        guard turn.members.isEmpty, turn.isSettled, turn.began + bounds.hold <= now else { return id }
        endTurn(id, &effects)
        return nil
    }

    /// N3: what happened in the turn is told before its reacquire.
    mutating func endTurn(_ id: TurnID, _ effects: inout [Effect]) {
        guard let turn = desk.turns.removeValue(forKey: id), let record = desk.records[turn.presenter] else {
            return
        }
        desk.records[turn.presenter]?.turns.removeAll { $0 == id }
        let notices: [(PresenterNotice, Bool)] = [
            (.didMove, turn.hasMoved), (.didChange, turn.hasChanged), (.reacquire, turn.isRelinquished),
        ]
        for (notice, isDue) in notices
        where isDue && record.presenter.messages.contains(PresenterMessages(notice)) {
            effects.append(.tell(Notice(notice, to: turn.presenter, in: id, turn.cause)))
        }
    }

    /// N4: a writer that lets others pass is reported as far as it got.
    mutating func tellBeforeSuspension(of claim: Claim, _ effects: inout [Effect]) {
        guard let inquiry = desk.inquiries[claim.id] else { return }
        switch contests[claim.id]?.seen {
        case .dirty(let stamp): claims[claim.id]?.toldStamp = stamp
        case .untouched: break
        case .clean, .atEnd, .reading, nil: return leaveTurns(claim.id, atOnce: false, &effects)
        }
        for turn in inquiry.turns {
            guard let entry = desk.turns.index(forKey: turn), desk.turns.values[entry].isWrite else {
                continue
            }
            desk.turns.values[entry].hasChanged = true
        }
        leaveTurns(claim.id, atOnce: false, &effects)
    }

    /// An episode goes on with the turn in which its name was vacated.
    mutating func joinTurns(_ claim: Claim, _ party: Party) {
        guard !desk.isEmpty, desk.inquiries[claim.id] == nil else { return }
        var inquiry = Inquiry()
        claim.forEachPart { part in
            for id in desk.presented[part.item] ?? [] {
                guard let record = desk.records[id],
                    let turn = desk.turn(of: party, isWrite: true, at: record),
                    let entry = desk.turns.index(forKey: turn)
                else { continue }
                desk.turns.values[entry].members.append(claim.id)
                desk.turns.values[entry].end = nil
                inquiry.turns.append(turn)
            }
        }
        if !inquiry.turns.isEmpty { desk.inquiries[claim.id] = inquiry }
    }
}
