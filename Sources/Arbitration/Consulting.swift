// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How presenters are chosen and asked before a claim is granted.
extension Arbiter {
    /// Whether a claim that nothing stands in the way of may be granted as far as presenters are concerned.
    ///
    /// P1: asked only now, because only now is it known whose item it is.
    mutating func isConsented(_ claim: Claim, _ effects: inout [Effect]) -> Bool {
        if desk.inquiries[claim.id] == nil {
            guard desk.isPresented(claim), claim.nature != .episode else { return true }
            guard let party = parties[claim.id] else {
                askWho(claim.id, &effects)
                return false
            }
            inquire(claim, party, &effects)
        }
        return desk.isSettled(claim.id)
    }

    private mutating func inquire(_ claim: Claim, _ party: Party, _ effects: inout [Effect]) {
        desk.inquiries[claim.id] = Inquiry()
        var begun: [TurnID] = []
        claim.forEachPart { part in
            for id in desk.presented[part.item] ?? [] {
                guard let turn = enter(claim, part.access, party, turnOf: id, &effects) else { continue }
                begun.append(turn)
            }
        }
        // P3: all are asked at once; each is asked one thing after the other.
        for turn in begun {
            askNext(in: turn, &effects)
            // It may owe the answer on another account already.
            if let turn = desk.turns[turn], turn.question != nil { letDebtorsPass(turn.presenter) }
        }
    }

    /// Makes a claim a member of its turn with a presenter, and notes what the presenter must be asked for it.
    private mutating func enter(
        _ claim: Claim, _ access: Access, _ party: Party, turnOf id: PresenterID, _ effects: inout [Effect]
    ) -> TurnID? {
        guard let record = desk.records[id], !isOwn(party, record.presenter.party) else { return nil }
        // P5, P6.
        let isExempt = party.works(for: record.presenter.party)
        if isExempt, desk.owesAnything(id) {
            desk.inquiries[claim.id]?.silent.append(id)
            return nil
        }
        endTrailingTurns(of: record, but: party, &effects)
        let isAsked = !isExempt && !isPartOfAwareAccess(claim, at: record.item)
        let requests = isAsked ? requests(for: claim, access, party, to: id) : []
        let present = presentTurn(of: party, isWrite: access.isWrite, at: record, &effects)
        // Nothing to ask, and nothing to tell later.
        guard present != nil || access.isWrite || !requests.isEmpty else { return nil }
        let turn = present ?? makeTurn(with: id, party, access)
        let wanted = requests.filter { !(desk.turns[turn]?.wants($0) ?? true) }
        if let entry = desk.turns.index(forKey: turn) {
            desk.turns.values[entry].wanted += wanted
            desk.turns.values[entry].members.append(claim.id)
            desk.turns.values[entry].cause = Cause(party, access)
            desk.turns.values[entry].end = nil
        }
        desk.inquiries[claim.id]?.turns.append(turn)
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

    /// P15.
    private func isPartOfAwareAccess(_ claim: Claim, at item: ItemID) -> Bool {
        guard awareClaims > 0, claim.nature != .aware, let held = dockets[item]?.held else { return false }
        let covers = { (id: ClaimID) in
            self.claims[id].map { $0.nature == .aware && self.areExempt($0, claim) } ?? false
        }
        return held.writers.contains(where: covers) || held.readers.contains(where: covers)
    }

    /// P5: whether an access is the presenter's own, of which it is neither asked nor told.
    func isOwn(_ party: Party, _ presenter: Party) -> Bool {
        if let purpose = party.purpose { return purpose == presenter.purpose }
        return party.process != nil && party.process == presenter.process
    }

    /// P2: what a presenter is asked for an access, in this order.
    private mutating func requests(
        for claim: Claim, _ access: Access, _ party: Party, to id: PresenterID
    ) -> [PresenterRequest] {
        guard let record = desk.records[id], !record.isDemoted, !isExcused(party, by: id) else { return [] }
        let requests: [PresenterRequest] =
            switch access {
            case .read:
                mayAskToSave(for: claim, party, record)
                    ? [.relinquishToReader, .save] : [.relinquishToReader]
            case .write(.updating), .write(.contentIndependentMetadataOnly), .write(.forMoving):
                [.relinquishToWriter]
            case .write(.forMerging): [.relinquishToWriter, .save]
            case .write(.forDeleting): [.relinquishToWriter, .accommodateDeletion]
            // A file that is created takes a name nobody has: those who show it were asked before.
            case .write(.forReplacing):
                claim.nature == .handle ? [] : [.relinquishToWriter, .accommodateDeletion]
            }
        return requests.filter { record.presenter.messages.contains(PresenterMessages($0)) }
    }

    /// P7.
    private mutating func isExcused(_ party: Party, by id: PresenterID) -> Bool {
        guard let process = party.process, let until = desk.records[id]?.excused[process] else {
            return false
        }
        guard now <= until else {
            desk.records[id]?.excused[process] = nil
            return false
        }
        desk.records[id]?.excused[process] = now + bounds.excused
        return true
    }

    /// P9, P10.
    private func mayAskToSave(for claim: Claim, _ party: Party, _ record: PresenterRecord) -> Bool {
        if claim.nature == .aware { return true }
        guard party.programClass == .ordinary else { return false }
        // Whoever comes while it is saving waits for that save, however far it has got.
        if desk.openSave(of: record.id) != nil { return true }
        if let saved = record.saved, isRecent(saved) { return false }
        return !(record.savesAsked[party.session].map(isRecent) ?? false)
    }

    /// P9.
    private func isRecent(_ moment: Instant) -> Bool { now < moment + bounds.askAgain }

    private mutating func noteSaveAsked(of id: PresenterID, for session: Int32) {
        guard var asked = desk.records[id]?.savesAsked else { return }
        asked = asked.filter { isRecent($0.value) }
        // Who has no session that we know is nobody's neighbour.
        if session != 0 { asked[session] = now }
        desk.records[id]?.savesAsked = asked
        desk.records[id]?.saveAsked = now
    }

    /// Asks a turn's next request, or lets its members go on.
    mutating func askNext(in id: TurnID, _ effects: inout [Effect]) {
        guard var turn = desk.turns[id], turn.question == nil else { return }
        guard !turn.wanted.isEmpty else { return settled(turn, &effects) }
        let request = turn.wanted.removeFirst()
        turn.asked.append(request)
        // Y1: members that are held already may be contested now.
        if request.isRelinquishment { shaken += turn.members }
        // P9.
        if request == .save, bounds.askAgain > .zero, let open = desk.openSave(of: turn.presenter) {
            turn.question = open
            desk.turns[id] = turn
            return
        }
        let question = Question(
            id: desk.makeQuestionID(), presenter: turn.presenter, turn: id, request: request,
            cause: turn.cause, asked: now, deadline: now + time(for: request))
        turn.question = question.id
        desk.turns[id] = turn
        desk.open(question)
        if request == .save { noteSaveAsked(of: turn.presenter, for: turn.party.session) }
        alarms.insert(Alarms.Alarm(moment: question.deadline, subject: .question(question.id)))
        effects.append(.ask(question))
        letDebtorsPass(turn.presenter)
    }

    /// P6: those who work for a presenter may pass whoever waits for it from now on.
    private mutating func letDebtorsPass(_ presenter: PresenterID) {
        guard let party = desk.records[presenter]?.presenter.party else { return }
        waiterKinship.forEachRelative(of: party) { unsettled.append($0) }
    }

    private mutating func settled(_ turn: Turn, _ effects: inout [Effect]) {
        unsettled += turn.members
        if turn.members.isEmpty { beginTrailing(turn.id) }
    }

    /// P4.
    func time(for request: PresenterRequest) -> Span {
        switch request {
        case .relinquishToReader, .relinquishToWriter: bounds.relinquish
        case .save: bounds.save
        case .accommodateDeletion, .accommodateSubitemDeletion: bounds.deletion
        }
    }

    /// P12: presenters that a write goes ahead over, though they refused, did not answer or were not asked.
    mutating func unanswered(by claim: Claim) -> [PresenterID] {
        guard !claim.onlyReads || claim.nature == .aware else { return [] }
        guard let inquiry = desk.inquiries[claim.id] else { return unasked(by: claim) }
        return inquiry.turns.compactMap { desk.turns[$0] }
            .filter { $0.isUnanswered || $0.question != nil }.map(\.presenter).sorted()
    }

    /// Presenters that a claim would have been put to, had it not gone ahead before its turn came.
    private mutating func unasked(by claim: Claim) -> [PresenterID] {
        guard desk.isPresented(claim), claim.nature != .episode else { return [] }
        let party = parties[claim.id] ?? .nobody
        var unasked: [PresenterID] = []
        claim.forEachPart { part in
            for id in desk.presented[part.item] ?? [] {
                guard let record = desk.records[id], !isOwn(party, record.presenter.party),
                    !party.works(for: record.presenter.party),
                    !isPartOfAwareAccess(claim, at: record.item),
                    !requests(for: claim, part.access, party, to: id).isEmpty
                else { continue }
                unasked.append(id)
            }
        }
        return unasked.sorted()
    }
}

extension Turn {
    /// Whether a request was made or is about to be.
    func wants(_ request: PresenterRequest) -> Bool { asked.contains(request) || wanted.contains(request) }
}
