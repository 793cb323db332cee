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
        return desk.isSettled(claim.id)
    }

    private mutating func inquire(_ claim: Claim, _ party: Party, _ effects: inout [Effect]) {
        desk.inquiries[claim.id] = Inquiry()
        claims[claim.id]?.isPut = true
        // D2: from now on it waits for answers.
        suspects.append(claim.id)
        var begun: [TurnID] = []
        for (id, wish) in wishes(of: claim, party).sorted(by: { $0.key < $1.key }) {
            _ = goesOnExcused(party, by: id)
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

    /// P20: what a claim wants of each presenter it concerns, but for the party's own.
    private func wishes(of claim: Claim, _ party: Party) -> [PresenterID: Wish] {
        var concerned: [(PresenterID, Concern, Request.Part)] = []
        claim.forEachPart { part in
            forEachConcerned(by: part, of: claim) { concerned.append(($0, $1, part)) }
        }
        var wishes: [PresenterID: Wish] = [:]
        for (id, concern, part) in concerned {
            guard let record = desk.records[id], !isOwn(party, record.presenter.party) else { continue }
            let isSpared = isSpared(record.presenter.party, by: party)
            // P7: one who is excused need not be asked, whatever it is.
            let isAsked = !isSpared && !isExcused(party, by: id)
            let demands = isAsked ? demands(of: claim, part, concern, party, on: id) : []
            let isWitness = concern == .item || concern == .package
            wishes[id, default: Wish(access: part.access)].add(
                demands, for: part.access, isWitness: isWitness)
        }
        return wishes
    }

    /// Makes a claim a member of its turn with a presenter, and notes what the presenter must be asked for it.
    private mutating func enter(
        _ claim: Claim, _ wish: Wish, _ party: Party, turnOf id: PresenterID, _ effects: inout [Effect]
    ) -> TurnID? {
        guard let record = desk.records[id] else { return nil }
        // P5, P6.
        if party.works(for: record.presenter.party), desk.owesAnything(id) {
            desk.inquiries[claim.id]?.silent.append(id)
            return nil
        }
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

    /// P15: the requests that a presenter is spared by aware accesses within which a claim is made.
    private func spared(
        by claim: Claim, _ record: PresenterRecord
    ) -> Set<PresenterRequest> {
        guard !aware.isEmpty, let item = record.item else { return [] }
        var spared: Set<PresenterRequest> = []
        // Whoever would be in the way of one who writes what the presenter shows.
        let unit = tree.unit(of: item, at: record.place)
        let above = tree.ancestors(of: item, at: record.place).filter { disputed[$0] != nil }
        let resources: Set<Resource> = [.item(item), .item(unit ?? item)]
        for resource in resources.union(above.map { Resource.contents(of: $0) }) {
            guard let held = dockets[resource]?.held else { continue }
            for id in Array(held.writers) + (resource.isContents ? [] : Array(held.readers)) {
                guard let outer = claims[id], outer.nature == .aware, areExempt(outer, claim) else {
                    continue
                }
                spared.insert(.save)
                // Of aware accesses each has made a presenter relinquish for itself.
                if claim.isAware { continue }
                let turns = desk.inquiries[id]?.turns.compactMap { desk.turns[$0] } ?? []
                for turn in turns where turn.presenter == record.id && turn.isRelinquished {
                    spared.insert(.relinquishToReader)
                    if turn.isWrite { spared.insert(.relinquishToWriter) }
                }
            }
        }
        return spared
    }

    /// P5: whether a presenter need not be asked about a party's accesses.
    func isSpared(_ presenter: Party, by party: Party) -> Bool {
        // Two coordinators of one program may well need to keep out of each other's way.
        if party.purpose != nil, party.process == presenter.process { return false }
        return party.works(for: presenter)
    }

    /// P5: whether an access is the presenter's own, of which it is neither asked nor told.
    func isOwn(_ party: Party, _ presenter: Party) -> Bool {
        if let purpose = party.purpose { return purpose == presenter.purpose }
        return party.process != nil && party.process == presenter.process
    }

    /// P2, P16 to P18, B2: what a presenter is asked for a part.
    private func demands(
        of claim: Claim, _ part: Request.Part, _ concern: Concern, _ party: Party, on id: PresenterID
    ) -> [Demand] {
        guard let record = desk.records[id], !record.isDemoted else { return [] }
        let isCreation = claim.nature == .handle && part.access == .write(.forReplacing)
        var requests: [PresenterRequest] = []
        switch concern {
        case .item, .package:
            // A file that is created takes a name nobody has: those who show it were asked before.
            if isCreation {
                requests = concern == .package ? [.relinquishToWriter] : []
            } else {
                requests = self.requests(for: claim, part.access, party, record)
            }
        case .below where claim.nature == .batch:
            requests = self.requests(for: claim, part.access, party, record)
        case .below where part.access.isDeletion: requests = [.relinquishToWriter, .accommodateDeletion]
        case .below: requests = [part.access.isWrite ? .relinquishToWriter : .relinquishToReader]
        case .directory: requests = [.accommodateDeletion]
        }
        let isAbove = concern == .package || concern == .directory
        let spared = spared(by: claim, record)
        return requests.map { request in
            request == .accommodateDeletion && isAbove
                ? Demand(request: .accommodateSubitemDeletion, subitem: part.item) : Demand(request: request)
        }.filter { demand in
            record.presenter.messages.contains(PresenterMessages(demand.request))
                && !spared.contains(demand.request)
        }
    }

    /// P2: what presenters of the item are asked.
    private func requests(
        for claim: Claim, _ access: Access, _ party: Party, _ record: PresenterRecord
    ) -> [PresenterRequest] {
        switch access {
        case .read(let options):
            return !options.contains(.withoutChanges) && mayAskToSave(party, record)
                ? [.relinquishToReader, .save] : [.relinquishToReader]
        case .write(.updating), .write(.contentIndependentMetadataOnly), .write(.forMoving):
            return [.relinquishToWriter]
        case .write(.forMerging): return [.relinquishToWriter, .save]
        case .write(.forDeleting), .write(.forReplacing): return [.relinquishToWriter, .accommodateDeletion]
        }
    }

    /// P7.
    private func isExcused(_ party: Party, by id: PresenterID) -> Bool {
        guard let process = party.process, let until = desk.records[id]?.excused[process] else {
            return false
        }
        return now <= until
    }

    /// P7: whether a party need not wait for a presenter, now and for a time after.
    mutating func goesOnExcused(_ party: Party, by id: PresenterID) -> Bool {
        guard isExcused(party, by: id) else { return false }
        excuse(party, by: id)
        return true
    }

    /// P9, P10: whether a presenter may be asked to save for somebody who reads.
    private func mayAskToSave(_ party: Party, _ record: PresenterRecord) -> Bool {
        if party.purpose != nil { return true }
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
        let want = turn.wanted.removeFirst()
        if let record = desk.records[turn.presenter] {
            endTrailingTurns(of: record, but: want.cause.party, &effects)
        }
        // P9: somebody else's reading may have made it save since this was wanted.
        if want.demand.request == .save, !want.cause.access.isWrite,
            let record = desk.records[turn.presenter],
            !mayAskToSave(want.cause.party, record)
        {
            desk.turns[id] = turn
            return askNext(in: id, &effects)
        }
        let (demand, request) = (want.demand, want.demand.request)
        turn.asked.append(demand)
        // Y1: members that are held already may be contested now.
        if request.isRelinquishment { shaken += turn.members }
        suspects += turn.members
        // P9.
        if request == .save, bounds.askAgain > .zero, let open = desk.openSave(of: turn.presenter) {
            turn.question = open
            desk.turns[id] = turn
            return
        }
        let question = Question(
            id: desk.makeQuestionID(), presenter: turn.presenter, turn: id, request: request,
            subitem: demand.subitem, cause: want.cause, asked: now, deadline: now + time(for: request))
        turn.question = question.id
        if want.loss != nil { turn.lossQuestion = question.id }
        desk.turns[id] = turn
        desk.open(question)
        if request == .save { noteSaveAsked(of: turn.presenter, for: turn.party.session) }
        alarms.insert(Alarms.Alarm(moment: question.deadline, subject: .question(question.id)))
        effects.append(.ask(question))
        letDebtorsPass(turn.presenter)
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

    /// P12: presenters that a write goes ahead over, though they refused, did not answer or were not asked.
    func unanswered(by claim: Claim) -> [PresenterID] {
        guard !claim.onlyReads || claim.isAware else { return [] }
        guard let inquiry = desk.inquiries[claim.id] else { return unasked(by: claim) }
        return inquiry.turns.compactMap { desk.turns[$0] }
            .filter { $0.isUnanswered || $0.question != nil }.map(\.presenter).sorted()
    }

    /// Presenters that a claim would have been put to, had it not gone ahead before its turn came.
    private func unasked(by claim: Claim) -> [PresenterID] {
        guard concernsPresenters(claim) else { return [] }
        let wishes = wishes(of: claim, parties[claim.id] ?? .nobody)
        return wishes.filter { !$0.value.demands.isEmpty }.keys.sorted()
    }
}

extension Turn {
    /// Whether a request was made or is about to be.
    func wants(_ demand: Demand) -> Bool {
        asked.contains(demand) || wanted.contains { $0.demand == demand }
    }

    /// P3: asks nothing again. P22: who has relinquished to a writer has to a reader.
    mutating func want(_ demand: Demand, _ cause: Cause, by claim: ClaimID) {
        // P7.
        if hasForfeited { return }
        let hasLetWritersIn = wants(Demand(request: .relinquishToWriter))
        if asked.contains(demand) || (demand.request == .relinquishToReader && hasLetWritersIn) { return }
        if let place = wanted.firstIndex(where: { $0.demand == demand }) {
            wanted[place].claims.append(claim)
        } else {
            let want = Want(demand: demand, cause: cause, claims: [claim])
            // Relinquishing comes first.
            let place = demand.request.isRelinquishment ? 0 : wanted.count
            wanted.insert(want, at: place)
        }
    }

    /// P2: asks about what has happened already, or waits for the answer if that is being asked; returns whether it does.
    mutating func wantForLoss(_ demand: Demand, _ cause: Cause, isOpen: (QuestionID) -> Bool) -> Bool {
        if hasForfeited { return false }
        if asked.contains(demand) {
            guard let question, isOpen(question) else { return false }
            lossQuestion = question
            return true
        }
        if let place = wanted.firstIndex(where: { $0.demand == demand }) {
            wanted[place].loss = cause
        } else {
            wanted.append(Want(demand: demand, cause: cause, loss: cause))
        }
        return true
    }

    /// P3: what was wanted for one claim alone is not asked any more.
    mutating func stopAsking(for claim: ClaimID) {
        wanted = wanted.compactMap { want in
            guard want.claims.contains(claim) else { return want }
            var want = want
            want.claims.removeAll { $0 == claim }
            if !want.claims.isEmpty { return want }
            return want.loss.map { Want(demand: want.demand, cause: $0, loss: $0) }
        }
    }
}
