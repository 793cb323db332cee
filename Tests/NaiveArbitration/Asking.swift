// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Turns, questions and answers.
extension NaiveArbiter {
    /// P1: chooses the presenters of a claim.
    mutating func put(_ index: Int) {
        guard let party = claims[index].party else { return }
        claims[index].isPut = true
        noteOwnReading(index, party)
        let passesOver = passedOverMuted(by: index, party)
        claims[index].passesOver = passesOver
        for presenter in presenters {
            guard let isWriting = writes(index, to: presenter) else { continue }
            claims[index].passesOver += passedOver(by: index, presenter, party)
            let isExcused = !presenter.isOwn(party) && isExcused(party, presenter)
            if isExcused { excuse(party, presenter.id) }
            if isExcused || presenter.isDemoted || presenter.isMuted {
                claims[index].excusers.append(presenter.id)
            }
            if isOwn(presenter, party, answering: claims[index].request.answering) {
                claims[index].ownOf.append(presenter.id)
                continue
            }
            // N15.
            if presenter.isMuted { continue }
            let wanted = isExcused ? [] : wanted(by: index, of: presenter, for: party)
            if wanted.isEmpty, !isWitness(presenter, index) { continue }
            endOthers(of: presenter.id, besides: party)
            join(index, presenter, party, isWriting, wanted)
        }
    }

    /// P24.
    private mutating func noteOwnReading(_ index: Int, _ party: Party) {
        guard claims[index].onlyReads else { return }
        for place in presenters.indices where isReadBy(index, party, presenters[place]) {
            presenters[place].isOutdated = false
        }
    }

    private func isReadBy(_ index: Int, _ party: Party, _ presenter: NaivePresenter) -> Bool {
        presenter.isSpared(party) && writes(index, to: presenter) != nil
    }

    private mutating func join(
        _ index: Int, _ presenter: NaivePresenter, _ party: Party, _ isWriting: Bool,
        _ wanted: [(NaiveAsk, Access)]
    ) {
        let claim = claims[index]
        let parts = parts(of: index, concerning: presenter)
        let part = parts.first { $0.access.isWrite } ?? parts[0]
        let cause = Cause(party, part.access)
        let turn = turn(
            of: presenter.id, cause, isWriting, isOfSocket: claim.isOfSocket,
            isSilent: !isWriting && wanted.isEmpty)
        guard let turn else { return }
        claims[index].turns.append(turn)
        change(turn) {
            $0.end = nil
            $0.cause = cause
            if $0.program.purpose == nil, party.purpose != nil { $0.program = party }
            for (ask, access) in wanted where $0.causes[ask] == nil {
                $0.causes[ask] = Cause(party, access)
                $0.order.append(ask)
            }
        }
        let isForUnmodifiedRead = !claim.isOfSocket && claim.onlyReads
        claims[index].wants += wanted.map { ask, access in
            NaiveWant(
                turn: turn, ask: ask, cause: Cause(party, access), isForUnmodifiedRead: isForUnmodifiedRead)
        }
    }

    /// The turn that an access or a change belongs in: one that is open, or a new one.
    mutating func turn(
        of presenter: PresenterID, _ cause: Cause, _ isWriting: Bool, isOfSocket: Bool, isSilent: Bool = false
    ) -> TurnID? {
        if let found = openTurn(of: presenter, cause.party, isWriting, isOfSocket) { return found.id }
        // N3: one that has lasted long enough takes nobody in.
        let former = turns.filter { turn in
            turn.presenter == presenter && turn.isWriting == isWriting && turn.end != nil
                && turn.program.isExempt(from: cause.party)
        }
        for turn in former { end(turn.id) }
        // P2: no turn in which nothing could be told.
        if isSilent { return nil }
        let turn = NaiveTurn(
            id: newTurn(), presenter: presenter, program: cause.party, isWriting: isWriting, began: now,
            cause: cause)
        turns.append(turn)
        return turn.id
    }

    private func hasLasted(_ turn: NaiveTurn) -> Bool {
        now >= turn.began + bounds.hold && !isOpen(turn)
    }

    private func openTurn(
        of presenter: PresenterID, _ party: Party, _ isWriting: Bool, _ isOfSocket: Bool
    ) -> NaiveTurn? {
        let all = turns.filter { $0.presenter == presenter && $0.program.isExempt(from: party) }
        let own = all.filter { !hasLasted($0) }
        let alike = own.filter { $0.isWriting == isWriting }
        // B3.
        let isOfPurpose = { (turn: NaiveTurn) in party.purpose != nil && turn.program.purpose == party.purpose
        }
        if let turn = alike.last(where: isOfPurpose) ?? alike.last { return turn }
        // P22, B3: if there is none of its reads.
        guard !isWriting, isOfSocket, all.allSatisfy(\.isWriting) else { return nil }
        return own.first { $0.isWriting && party.purpose != nil && $0.program.purpose == party.purpose }
    }

    func members(of turn: TurnID) -> [Int] { claims.indices.filter { claims[$0].turns.contains(turn) } }

    mutating func change(_ id: TurnID, _ body: (inout NaiveTurn) -> Void) {
        if let index = turns.firstIndex(where: { $0.id == id }) { body(&turns[index]) }
    }

    private mutating func change(_ id: PresenterID, _ body: (inout NaivePresenter) -> Void) {
        if let index = presenters.firstIndex(where: { $0.id == id }) { body(&presenters[index]) }
    }

    mutating func excuse(_ party: Party, _ presenter: PresenterID) {
        guard let process = party.process else { return }
        let moment = now
        change(presenter) { $0.excused[process] = moment }
    }

    /// P3: asks whatever can be asked.
    mutating func goOnWithTurns() {
        for id in turns.map(\.id) {
            while let want = nextWant(of: id), !ask(want) {}
        }
    }

    /// What a turn is to ask next: relinquishing first, else what was wanted first.
    private func nextWant(of id: TurnID) -> NaiveWant? {
        guard let turn = turns.first(where: { $0.id == id }), !turn.isForfeited else { return nil }
        if questions.contains(where: { $0.turn == id }) { return nil }
        guard let presenter = presenters.first(where: { $0.id == turn.presenter }), !presenter.isDemoted
        else {
            return nil
        }
        let waiting = claims.filter { !$0.isHeld && $0.turns.contains(id) }
        let wants = (waiting.flatMap(\.wants) + turn.owed).filter { want in
            want.turn == id && !turn.asked.contains(want.ask) && !isCovered(want.ask, in: turn)
        }
        let first = turn.order.first { ask in wants.contains { $0.ask == ask } }
        return wants.first { $0.ask.request.isRelinquishment } ?? wants.first { $0.ask == first }
            ?? wants.first
    }

    /// P22.
    func isCovered(_ ask: NaiveAsk, in turn: NaiveTurn) -> Bool {
        ask.request == .relinquishToReader && turn.asked.contains { $0.request == .relinquishToWriter }
    }

    /// Asks, unless P9 says no; then the want is forgotten.
    private mutating func ask(_ want: NaiveWant) -> Bool {
        guard let turn = turns.first(where: { $0.id == want.turn }) else { return true }
        endOthers(of: turn.presenter, besides: want.cause.party)
        if isForbidden(want, turn.presenter) {
            forget(want)
            return false
        }
        if want.ask.request == .save, isSparedSaving(turn.presenter, want) {
            let saving = questions.filter { $0.presenter == turn.presenter && $0.request == .save }.map(\.id)
            change(turn.id) {
                $0.asked.append(want.ask)
                $0.awaited += saving
            }
            return false
        }
        tellFirst(turn)
        let moment = now
        if want.ask.request == .save {
            change(turn.presenter) {
                $0.lastAskedToSave = moment
                if want.isForUnmodifiedRead { $0.saveAsked[want.cause.party.session] = moment }
            }
        }
        let question = Question(
            id: newQuestion(), presenter: turn.presenter, turn: turn.id, request: want.ask.request,
            subitem: want.ask.subitem, cause: turn.causes[want.ask] ?? want.cause, asked: now,
            deadline: now + span(of: want.ask.request))
        change(turn.id) { $0.asked.append(want.ask) }
        questions.append(question)
        effects.append(.ask(question))
        return true
    }

    /// P23, P24.
    private func isForbidden(_ want: NaiveWant, _ id: PresenterID) -> Bool {
        let written = turns.filter {
            $0.presenter == id && $0.isWriting && $0.wasWritten && $0.end == nil
        }
        switch want.ask.request {
        case .save:
            let presenter = presenters.first { $0.id == id }
            let isRead = !want.cause.access.isWrite
            return !written.isEmpty || presenter?.isOutdated ?? false
                || isRead && (presenter.map { holdsUp(want.cause.party, $0) } ?? false)
        case .relinquishToReader:
            return written.contains { turn in
                turn.program.isExempt(from: want.cause.party)
                    && turn.asked.contains { $0.request == .relinquishToWriter }
            }
        default: return false
        }
    }

    /// P25.
    func holdsUp(_ reader: Party, _ presenter: NaivePresenter) -> Bool {
        if presenter.isWorkedForBy(reader) { return false }
        return claims.contains { claim in
            guard !claim.isHeld, claim.party.map(presenter.isWorkedForBy) ?? false else { return false }
            return turns.contains { turn in
                claim.turns.contains(turn.id) && isOpen(turn)
                    && presenters.contains { $0.id == turn.presenter && $0.isWorkedForBy(reader) }
            }
        }
    }

    /// A claim that wants it later may have it asked.
    private mutating func forget(_ want: NaiveWant) {
        for index in claims.indices {
            claims[index].wants.removeAll { $0.turn == want.turn && $0.ask == want.ask }
        }
        change(want.turn) { turn in
            turn.order.removeAll { $0 == want.ask }
            turn.causes[want.ask] = nil
            turn.owed.removeAll { $0.ask == want.ask }
        }
    }

    /// N5: what has happened is told, and the presenter let in again, before anything is asked.
    private mutating func tellFirst(_ asking: NaiveTurn) {
        for turn in turns where turn.presenter == asking.presenter && turn.id != asking.id {
            if turn.isWriting, turn.end != nil { end(turn.id) } else { tellNow(turn.id) }
        }
        tellNow(asking.id)
    }

    /// P9.
    private func isSparedSaving(_ id: PresenterID, _ want: NaiveWant) -> Bool {
        guard let presenter = presenters.first(where: { $0.id == id }) else { return true }
        if bounds.askAgain == .zero { return false }
        if questions.contains(where: { $0.presenter == id && $0.request == .save }) { return true }
        guard want.isForUnmodifiedRead else { return false }
        let session = want.cause.party.session
        let moments = [session == 0 ? nil : presenter.saveAsked[session], presenter.lastSaved]
        return moments.contains { $0.map { now.since($0) < bounds.askAgain } ?? false }
    }

    /// P4.
    private func span(of request: PresenterRequest) -> Span {
        switch request {
        case .relinquishToReader, .relinquishToWriter: bounds.relinquish
        case .save: bounds.save
        case .accommodateDeletion, .accommodateSubitemDeletion: bounds.deletion
        }
    }

    mutating func take(_ answer: Answer, to id: QuestionID, by presenter: PresenterID) {
        // P8, P12.
        change(presenter) { ($0.forfeits, $0.passedOver) = (0, []) }
        guard let question = questions.first(where: { $0.id == id && $0.presenter == presenter }) else {
            return
        }
        let concerned = turns(waitingFor: question)
        questions.removeAll { $0.id == id }
        if answer == .failed, !question.request.isRelinquishment {
            for turn in concerned { failTurn(turn) }
        }
        goOnWithTurns()
        leaveIfEmpty(question.turn)
    }

    /// The turn it was asked in, and those that wait for it, too (P9).
    private func turns(waitingFor question: Question) -> [NaiveTurn] {
        turns.filter { $0.id == question.turn || $0.awaited.contains(question.id) }
    }

    /// P13.
    private mutating func failTurn(_ turn: NaiveTurn) {
        change(turn.id) { $0.isRefused = true }
        let failing = members(of: turn.id).filter { !claims[$0].isHeld && claims[$0].isOfSocket }
        for id in failing.map({ claims[$0].id }) {
            if let index = index(of: id) { refuse(index, .presenterFailed) }
        }
    }

    /// P7.
    mutating func forfeit(_ question: Question) {
        let concerned = turns(waitingFor: question)
        questions.removeAll { $0.id == question.id }
        change(question.presenter) { $0.forfeits += 1 }
        excuse(question.cause.party, question.presenter)
        for turn in concerned {
            if turn.id != question.turn { excuse(turn.program, question.presenter) }
            change(turn.id) { $0.isForfeited = true }
        }
        let isDemoted = presenters.first { $0.id == question.presenter }?.isDemoted ?? false
        effects.append(.forfeit(question, isDemoted: isDemoted))
        leaveIfEmpty(question.turn)
    }

    /// P4.
    mutating func hurry(_ id: QuestionID, _ span: Span) {
        guard let index = questions.firstIndex(where: { $0.id == id }) else { return }
        let least = max(now, questions[index].asked + span)
        questions[index].deadline = min(questions[index].deadline, least)
    }

    /// P4.
    mutating func extend(_ id: QuestionID) {
        guard let index = questions.firstIndex(where: { $0.id == id }) else { return }
        let question = questions[index]
        let latest = question.asked + bounds.progress
        let deadline = max(question.deadline, min(now + span(of: question.request), latest))
        questions[index].deadline = deadline
        for claim in claims.indices where !claims[claim].isHeld {
            if openQuestions(of: claim).contains(where: { $0.id == id }) {
                let most = claims[claim].arrival + bounds.progress
                claims[claim].deadline = max(claims[claim].deadline, min(deadline, most))
            }
        }
    }
}
