// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How presenters are chosen and asked before a claim is granted.
extension Arbiter {
    /// Whether a claim that nothing stands in the way of may be granted as far as presenters are concerned.
    ///
    /// P1: asked only now, because only now is it known whose item it is.
    mutating func isConsented(_ claim: Claim, _ effects: inout [Effect]) -> Bool {
        if desk.inquiries[claim.id] == nil {
            guard concernsPresenters(claim) else { return true }
            guard let party = parties[claim.id] else {
                unnamed.insert(claim.id)
                askWho(claim.id, &effects)
                return false
            }
            inquire(claim, party, &effects)
        }
        return desk.settles(claim.id)
    }

    private mutating func inquire(_ claim: Claim, _ party: Party, _ effects: inout [Effect]) {
        desk.inquiries[claim.id] = Inquiry()
        claims[claim.id]?.isPut = true
        // D2: from now on it waits for answers.
        suspects.append(claim.id)
        if claim.onlyReads { noteOwnReading(claim, party) }
        let passedOver = passedOverMuted(by: claim, party)
        desk.inquiries[claim.id]?.passedOver = passedOver
        var begun: [TurnID] = []
        for (id, wish) in wishes(of: claim, party).sorted(by: { $0.key < $1.key }) {
            if goesOnExcused(party, by: id) || desk.records[id]?.isLeftAlone ?? false {
                desk.inquiries[claim.id]?.excusers.append(id)
            }
            desk.inquiries[claim.id]?.passedOver += wish.passedOver.map { (id, $0) }
            guard let turn = enter(claim, wish, party, turnOf: id, &effects) else { continue }
            begun.append(turn)
        }
        // P3: all are asked at once; each is asked one thing after the other.
        for turn in begun {
            askNext(in: turn, &effects)
            // It may owe the answer on another account already.
            if let turn = desk.turns[turn], turn.question != nil { letDebtorsPass(turn.presenter) }
        }
    }

    /// P24: what a presenter reads itself it knows.
    private mutating func noteOwnReading(_ claim: Claim, _ party: Party) {
        var readers: [PresenterID] = []
        claim.forEachPart { part in
            forEachConcerned(by: part, of: claim) { id, concern in
                guard concern != .directory, let record = desk.records[id], record.isOutdated,
                    isOwn(party, record.presenter.party) || isSpared(record.presenter.party, by: party)
                else { return }
                readers.append(id)
            }
        }
        for id in readers { desk.records[id]?.isOutdated = false }
    }

    /// P20: what a claim wants of each presenter it concerns, but for the party's own.
    func wishes(of claim: Claim, _ party: Party) -> [PresenterID: Wish] {
        var concerned: [(PresenterID, Concern, Request.Part)] = []
        claim.forEachPart { part in
            forEachConcerned(by: part, of: claim) { concerned.append(($0, $1, part)) }
        }
        var wishes: [PresenterID: Wish] = [:]
        for (id, concern, part) in concerned {
            guard let record = desk.records[id], !isOwn(party, record.presenter.party) else { continue }
            let isSpared = isSpared(record.presenter.party, by: party)
            let demands = isSpared ? [] : demands(of: claim, part, concern, party, on: id)
            let isWitness = concern == .item || concern == .package
            // P7, P8, N15.
            let isAsked = !record.isLeftAlone && !isExcused(party, by: id)
            wishes[id, default: Wish(access: part.access)].add(
                isAsked ? demands : [], for: part.access, isWitness: isWitness)
            // P12: a folder's presenter has none of its contents; and one of the muted ones stands for all.
            guard part.access.isWrite, concern != .directory, record.mute == nil else { continue }
            let isLeftAlone = !isAsked && !demands.isEmpty
            if isLeftAlone || (!isSpared && hasNotLetIn(claim, part, record)) {
                wishes[id]?.passedOver.append(part.item)
            }
        }
        return wishes
    }

    /// Makes a claim a member of its turn with a presenter, and notes what the presenter must be asked for it.
    private mutating func enter(
        _ claim: Claim, _ wish: Wish, _ party: Party, turnOf id: PresenterID, _ effects: inout [Effect]
    ) -> TurnID? {
        guard let record = desk.records[id] else { return nil }
        // P5, P6.
        if isForItsSake(party, answering: claim.answering, record) {
            desk.inquiries[claim.id]?.silent.append(id)
            return nil
        }
        // N15.
        if record.mute != nil { return nil }
        let demands = wish.inOrder
        guard wish.isWitness || !demands.isEmpty else { return nil }
        endTrailingTurns(of: record, but: party, &effects)
        let present = presentTurn(of: party, isWrite: wish.access.isWrite, at: record, &effects)
        // Nothing to ask, and nothing to tell later.
        guard present != nil || wish.access.isWrite || !demands.isEmpty else { return nil }
        let turn = present ?? makeTurn(with: id, party, wish.access)
        if let entry = desk.turns.index(forKey: turn) {
            for (demand, access) in demands {
                desk.turns.values[entry].want(demand, Cause(party, access), by: claim.id)
            }
            // Of two purposes neither hears what was relinquished to the other.
            if desk.turns.values[entry].party.purpose == nil, party.purpose != nil {
                desk.turns.values[entry].party = party
            }
            desk.turns.values[entry].members.append(claim.id)
            desk.turns.values[entry].cause = Cause(party, wish.access)
            desk.turns.values[entry].end = nil
        }
        desk.inquiries[claim.id]?.turns.append(turn)
        countAttention(of: record)
        noteDebt(in: turn, by: [claim.id])
        return turn
    }

    mutating func makeTurn(with presenter: PresenterID, _ party: Party, _ access: Access) -> TurnID {
        let id = desk.makeTurnID()
        desk.turns[id] = Turn(
            id: id, presenter: presenter, isWrite: access.isWrite, party: party, began: now,
            cause: Cause(party, access))
        desk.records[presenter]?.turns.append(id)
        return id
    }

    /// Asks a turn's next request, or lets its members go on.
    mutating func askNext(in id: TurnID, _ effects: inout [Effect]) {
        guard var turn = desk.turns[id], turn.question == nil else { return }
        guard !turn.wanted.isEmpty else { return settled(turn, &effects) }
        let want = turn.wanted.removeFirst()
        desk.turns[id] = turn
        if let record = desk.records[turn.presenter] {
            endTrailingTurns(of: record, but: want.cause.party, &effects)
            if isNeedless(want, record) { return askNext(in: id, &effects) }
        }
        let (demand, request) = (want.demand, want.demand.request)
        // Y1: members that are held already may be contested now.
        if request.isRelinquishment { shaken += turn.members }
        suspects += turn.members
        // P9.
        if request == .save, bounds.askAgain > .zero, let open = desk.openSave(of: turn.presenter) {
            desk.turns[id]?.take(open, demand, isAboutLoss: false)
            return noteDebt(in: id, by: turn.members)
        }
        tellBeforeAsking(in: turn, &effects)
        let question = Question(
            id: desk.makeQuestionID(), presenter: turn.presenter, turn: id, request: request,
            subitem: demand.subitem, cause: want.cause, asked: now, deadline: now + time(for: request))
        desk.turns[id]?.take(question.id, demand, isAboutLoss: want.loss != nil)
        desk.open(question)
        noteDebt(in: id, by: turn.members)
        if request == .save { noteSaveAsked(of: turn.presenter, for: want.cause.party.session) }
        alarms.insert(Alarms.Alarm(moment: question.deadline, subject: .question(question.id)))
        effects.append(.ask(question))
        if let record = desk.records[turn.presenter] { countAttention(of: record) }
        letDebtorsPass(turn.presenter)
    }

    /// Whether what was wanted is not asked, by what has happened since.
    private func isNeedless(_ want: Want, _ record: PresenterRecord) -> Bool {
        let party = want.cause.party
        let written = record.turns.compactMap { desk.turns[$0] }.filter(\.isBeingWritten)
        switch want.demand.request {
        case .save:
            // P9: somebody else's reading may have made it save since this was wanted.
            if !want.cause.access.isWrite, !mayAskToSave(party, record) { return true }
            // P23, P24.
            return !written.isEmpty || record.isOutdated
        // P23.
        case .relinquishToReader:
            let hasLetWritersIn = { (turn: Turn) in turn.wants(Demand(request: .relinquishToWriter)) }
            return written.contains { $0.party.isOneProgram(with: party) && hasLetWritersIn($0) }
        case .relinquishToWriter, .accommodateDeletion, .accommodateSubitemDeletion: return false
        }
    }

    /// P3: a claim that went ahead waits for no answer.
    mutating func stopAsking(for id: ClaimID) {
        for turn in desk.inquiries[id]?.turns ?? [] {
            desk.turns[turn]?.stopAsking(for: id)
        }
    }

    /// P6: those who work for a presenter may pass whoever waits for it from now on.
    private mutating func letDebtorsPass(_ presenter: PresenterID) {
        guard let party = desk.records[presenter]?.presenter.party else { return }
        waiterKinship.forEachRelative(of: party) { unsettled.append($0) }
    }

    private mutating func settled(_ turn: Turn, _ effects: inout [Effect]) {
        unsettled += turn.members
        if turn.members.isEmpty, turn.end == nil { beginTrailing(turn.id) }
    }

    /// P4.
    func time(for request: PresenterRequest) -> Span {
        switch request {
        case .relinquishToReader, .relinquishToWriter: bounds.relinquish
        case .save: bounds.save
        case .accommodateDeletion, .accommodateSubitemDeletion: bounds.deletion
        }
    }
}
