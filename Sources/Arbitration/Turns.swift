// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How turns end.
extension Arbiter {
    /// A claim is over, or lets others pass: it belongs to no turn any more.
    ///
    /// N3: at once if whoever it was said so, else later, so that a save in several steps is one turn.
    mutating func leaveTurns(_ id: ClaimID, atOnce: Bool, _ effects: inout [Effect]) {
        guard let inquiry = desk.inquiries.removeValue(forKey: id) else { return }
        for turn in inquiry.turns {
            guard let entry = desk.turns.index(forKey: turn) else { continue }
            desk.turns.values[entry].members.removeAll { $0 == id }
            desk.turns.values[entry].stopAsking(for: id)
            guard desk.turns.values[entry].members.isEmpty else { continue }
            let isOver = atOnce && !desk.turns.values[entry].isAboutLoss
            if isOver || !desk.turns.values[entry].hasAnythingToSay {
                endTurn(turn, &effects)
            } else {
                beginTrailing(turn)
            }
        }
    }

    mutating func beginTrailing(_ id: TurnID) {
        guard let entry = desk.turns.index(forKey: id) else { return }
        // An answer that is owed to nobody any more is not waited for, but for that to a deletion which has happened.
        if desk.turns.values[entry].isAboutLoss { return }
        // N10.
        let span = desk.turns.values[entry].hasSteps ? max(bounds.steps, bounds.trailing) : bounds.trailing
        let end = now + span
        desk.turns.values[entry].end = end
        alarms.insert(Alarms.Alarm(moment: end, subject: .turn(id)))
    }

    /// N5: before a presenter hears of somebody else it is told what is over.
    mutating func endTrailingTurns(
        of record: PresenterRecord, but party: Party, _ effects: inout [Effect],
        where isConcerned: (Turn) -> Bool = { _ in true }
    ) {
        for id in record.turns {
            guard let turn = desk.turns[id], turn.end != nil, !turn.party.isOneProgram(with: party),
                isConcerned(turn)
            else { continue }
            endTurn(id, &effects)
        }
    }

    /// N5: the last word about a name is the last that is told of it.
    ///
    /// All that is below a directory has its new path already. So other turns tell nothing before its move is told, which is the
    /// last word about both names.
    mutating func giveWay(
        to happening: Happening, in own: TurnID, at presenter: PresenterID, _ effects: inout [Effect]
    ) {
        for id in desk.records[presenter]?.turns ?? [] where id != own {
            let isTold =
                !happening.isToldAtOnce && desk.turns[id]?.news.knows(anyOf: happening.names) ?? false
            if isTold { tellNews(of: id, &effects) }
            desk.turns[id]?.news.forget(happening.names)
        }
    }

    /// N5: before a presenter is asked anything it is told what was written, and let in.
    mutating func tellBeforeAsking(in asking: Turn, _ effects: inout [Effect]) {
        guard let record = desk.records[asking.presenter] else { return }
        for id in record.turns where id != asking.id {
            guard let turn = desk.turns[id] else { continue }
            if turn.isWrite, turn.end != nil { endTurn(id, &effects) } else { tellEarly(of: id, &effects) }
        }
        // What ends with the others may have told its news.
        tellEarly(of: asking.id, &effects)
    }

    /// N3: the turn in which an access of a party belongs, if there is one.
    ///
    /// A program that comes again and again would keep its presenters away for ever: a turn that has lasted `hold` takes
    /// nobody in any more, and is over as soon as nobody is in it.
    mutating func presentTurn(
        of party: Party, isWrite: Bool, at record: PresenterRecord, _ effects: inout [Effect]
    ) -> TurnID? {
        let (now, hold) = (now, bounds.hold)
        let hasLasted = { (turn: Turn) in turn.isSettled && turn.began + hold <= now }
        if let id = desk.turn(of: party, isWrite: isWrite, at: record, where: { !hasLasted($0) }) {
            return id
        }
        for id in record.turns {
            guard let turn = desk.turns[id], turn.isWrite == isWrite, turn.end != nil,
                turn.party.isOneProgram(with: party)
            else { continue }
            endTurn(id, &effects)
        }
        return nil
    }

    /// N3: what happened in the turn is told before its reacquire.
    mutating func endTurn(_ id: TurnID, _ effects: inout [Effect]) {
        guard let turn = desk.turns.removeValue(forKey: id), let record = desk.records[turn.presenter] else {
            return
        }
        desk.records[turn.presenter]?.turns.removeAll { $0 == id }
        if turn.isRelinquished { tellOfUnrelinquishedTurns(but: turn, record, &effects) }
        tell(of: turn, turn.news.notices, record, &effects)
        if turn.isRelinquished, record.presenter.messages.contains(.reacquire) {
            effects.append(.tell(Notice(.reacquire, to: turn.presenter, in: id, turn.cause)))
        }
    }

    /// N3: a presenter that is let in is told before of what the program did while it had relinquished to it for
    /// another access.
    private mutating func tellOfUnrelinquishedTurns(
        but turn: Turn, _ record: PresenterRecord, _ effects: inout [Effect]
    ) {
        for id in record.turns where id != turn.id {
            guard let other = desk.turns[id], !other.isRelinquished,
                other.party.isOneProgram(with: turn.party)
            else { continue }
            if other.end == nil { tellNews(of: id, &effects) } else { endTurn(id, &effects) }
        }
    }

    /// N4: a writer that lets others pass is reported as far as it got.
    mutating func tellBeforeSuspension(of claim: Claim, _ effects: inout [Effect]) {
        let silent = desk.inquiries[claim.id]?.silent ?? []
        switch contests[claim.id]?.seen {
        case .dirty(let stamp): tellWritten(by: claim, stamp: stamp, &effects)
        case .untouched: tellWritten(by: claim, stamp: nil, &effects)
        case .clean, .unchanged, .atEnd, .finishing, .reading, nil: break
        }
        leaveTurns(claim.id, atOnce: false, &effects)
        // P6: what its handle still writes is no less the presenter's own.
        if !silent.isEmpty { desk.inquiries[claim.id] = Inquiry(silent: silent) }
    }

    private mutating func tellWritten(by claim: Claim, stamp: UInt64?, _ effects: inout [Effect]) {
        if desk.isEmpty { return }
        claim.forEachPart { part in
            guard part.access.isWrite else { return }
            noteChange(
                of: part.item, at: part.place, Cause(.nobody, part.access), under: claim.id,
                stamp: stamp ?? 0,
                &effects)
        }
        claims[claim.id]?.toldStamp = stamp
    }

    /// An episode goes on with the turn in which its name was vacated.
    mutating func joinTurns(_ claim: Claim, _ party: Party) {
        guard !desk.isEmpty, desk.inquiries[claim.id] == nil else { return }
        var (inquiry, known): (Inquiry, Set<TurnID>) = (Inquiry(), [])
        claim.forEachPart { part in
            var concerned: [PresenterID] = []
            forEachConcerned(by: part, of: claim) { id, concern in
                if concern == .item || concern == .package { concerned.append(id) }
            }
            for id in concerned.sorted() {
                guard let record = desk.records[id],
                    let turn = desk.turn(of: party, isWrite: true, at: record),
                    let entry = desk.turns.index(forKey: turn), known.insert(turn).inserted
                else { continue }
                desk.turns.values[entry].members.append(claim.id)
                desk.turns.values[entry].end = nil
                inquiry.turns.append(turn)
            }
        }
        if !inquiry.turns.isEmpty { desk.inquiries[claim.id] = inquiry }
    }
}
