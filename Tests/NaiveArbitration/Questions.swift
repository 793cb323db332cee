// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Asks presenters questions in access sessions, and records their answers.
extension NaiveArbiter {
    /// P1: chooses the presenters of a claim, and adds the claim to an access session with each of them.
    mutating func consult(_ index: Int) {
        guard let party = claims[index].party else { return }
        claims[index].hasConsulted = true
        noteOwnReading(index, party)
        let unaskedWritesOfClaim = unaskedWritesOfMuted(by: index, party)
        claims[index].unaskedWritesOfClaim = unaskedWritesOfClaim
        for presenter in presenters {
            guard let isWriting = writes(index, to: presenter) else { continue }
            claims[index].unaskedWritesOfClaim += unaskedWrites(by: index, presenter, party)
            let isExcused = !presenter.isOwn(party) && isExcused(party, presenter)
            if isExcused { excuse(party, presenter.id) }
            if isExcused || presenter.isDemoted || presenter.isMuted {
                claims[index].skippedPresenters.append(presenter.id)
            }
            if isOwn(presenter, party, answering: claims[index].request.answering) {
                claims[index].ownOf.append(presenter.id)
                continue
            }
            // N15: a muted presenter gets no questions and no notices of its item. So it gets no access session.
            if presenter.isMuted { continue }
            let wanted = isExcused ? [] : wanted(by: index, of: presenter, for: party)
            if wanted.isEmpty, !isNotified(presenter, index) { continue }
            endOthers(of: presenter.id, besides: party)
            join(index, presenter, party, isWriting, wanted)
        }
    }

    /// P24: when a presenter's own program reads the item, records that the presenter is not outdated any more.
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
        _ wanted: [(NaiveQuestionKind, Access)]
    ) {
        let claim = claims[index]
        let parts = parts(of: index, concerning: presenter)
        let part = parts.first { $0.access.isWrite } ?? parts[0]
        let cause = Cause(party, part.access)
        let accessSession = accessSession(
            of: presenter.id, cause, isWriting, isOfSocket: claim.isOfSocket,
            isSilent: !isWriting && wanted.isEmpty)
        guard let accessSession else { return }
        claims[index].accessSessions.append(accessSession)
        change(accessSession) {
            $0.end = nil
            $0.cause = cause
            if $0.program.purpose == nil, party.purpose != nil { $0.program = party }
            for (ask, access) in wanted where $0.causes[ask] == nil {
                $0.causes[ask] = Cause(party, access)
                $0.order.append(ask)
            }
        }
        let isForUnmodifiedRead = !claim.isOfSocket && claim.onlyReads
        claims[index].pendingQuestions += wanted.map { ask, access in
            NaivePendingQuestion(
                accessSession: accessSession, ask: ask, cause: Cause(party, access),
                isForUnmodifiedRead: isForUnmodifiedRead)
        }
    }

    /// Returns the access session for an access or a change: an existing session, or a new one.
    mutating func accessSession(
        of presenter: PresenterID, _ cause: Cause, _ isWriting: Bool, isOfSocket: Bool, isSilent: Bool = false
    ) -> AccessSessionID? {
        if let found = openAccessSession(of: presenter, cause.party, isWriting, isOfSocket) {
            return found.id
        }
        // N3: before a new access session begins, the program's sessions that have no claim left end. New accesses did not join
        // them, because they had lasted for the time `hold`.
        let former = accessSessions.filter { accessSession in
            accessSession.presenter == presenter && accessSession.isWriting == isWriting
                && accessSession.end != nil
                && accessSession.program.isExempt(from: cause.party)
        }
        for accessSession in former { end(accessSession.id) }
        // P2: a read that needs no question begins no access session, because the presenter would get no message in it.
        if isSilent { return nil }
        let accessSession = NaiveAccessSession(
            id: newTurn(), presenter: presenter, program: cause.party, isWriting: isWriting, began: now,
            cause: cause)
        accessSessions.append(accessSession)
        return accessSession.id
    }

    private func hasLasted(_ accessSession: NaiveAccessSession) -> Bool {
        now >= accessSession.began + bounds.hold && !isOpen(accessSession)
    }

    private func openAccessSession(
        of presenter: PresenterID, _ party: Party, _ isWriting: Bool, _ isOfSocket: Bool
    ) -> NaiveAccessSession? {
        let all = accessSessions.filter { $0.presenter == presenter && $0.program.isExempt(from: party) }
        let own = all.filter { !hasLasted($0) }
        let alike = own.filter { $0.isWriting == isWriting }
        // B3: if the program has several access sessions, the access joins the session of its own purpose.
        let isOfPurpose = { (accessSession: NaiveAccessSession) in
            party.purpose != nil && accessSession.program.purpose == party.purpose
        }
        if let accessSession = alike.last(where: isOfPurpose) ?? alike.last { return accessSession }
        // P22, B3: if the program has no access session of reads, an aware read joins the session of writes with the same
        // purpose.
        guard !isWriting, isOfSocket, all.allSatisfy(\.isWriting) else { return nil }
        return own.first { $0.isWriting && party.purpose != nil && $0.program.purpose == party.purpose }
    }

    func members(of accessSession: AccessSessionID) -> [Int] {
        claims.indices.filter { claims[$0].accessSessions.contains(accessSession) }
    }

    mutating func change(_ id: AccessSessionID, _ body: (inout NaiveAccessSession) -> Void) {
        if let index = accessSessions.firstIndex(where: { $0.id == id }) { body(&accessSessions[index]) }
    }

    private mutating func change(_ id: PresenterID, _ body: (inout NaivePresenter) -> Void) {
        if let index = presenters.firstIndex(where: { $0.id == id }) { body(&presenters[index]) }
    }

    mutating func excuse(_ party: Party, _ presenter: PresenterID) {
        guard let process = party.process else { return }
        let moment = now
        change(presenter) { $0.excused[process] = moment }
    }

    /// P3: asks all questions that can be asked now.
    mutating func advanceAccessSessions() {
        for id in accessSessions.map(\.id) {
            while let pendingQuestion = nextWant(of: id), !ask(pendingQuestion) {}
        }
    }

    /// Returns the next question of an access session. Questions to relinquish come first, and then the question that was
    /// needed first.
    private func nextWant(of id: AccessSessionID) -> NaivePendingQuestion? {
        guard let accessSession = accessSessions.first(where: { $0.id == id }), !accessSession.isForfeited
        else { return nil }
        if questions.contains(where: { $0.accessSession == id }) { return nil }
        guard let presenter = presenters.first(where: { $0.id == accessSession.presenter }),
            !presenter.isDemoted
        else {
            return nil
        }
        let waiting = claims.filter { !$0.isHeld && $0.accessSessions.contains(id) }
        let pendingQuestions = (waiting.flatMap(\.pendingQuestions) + accessSession.owed).filter {
            pendingQuestion in
            pendingQuestion.accessSession == id && !accessSession.asked.contains(pendingQuestion.ask)
                && !isCovered(pendingQuestion.ask, in: accessSession)
        }
        let first = accessSession.order.first { ask in pendingQuestions.contains { $0.ask == ask } }
        return pendingQuestions.first { $0.ask.request.isRelinquishment } ?? pendingQuestions.first {
            $0.ask == first
        }
            ?? pendingQuestions.first
    }

    /// P22: whether the question to relinquish to a reader is omitted, because the presenter was already asked in this access
    /// session to relinquish to a writer.
    func isCovered(_ ask: NaiveQuestionKind, in accessSession: NaiveAccessSession) -> Bool {
        ask.request == .relinquishToReader
            && accessSession.asked.contains { $0.request == .relinquishToWriter }
    }

    /// Asks a question, unless rule P9, P23, P24 or P25 omits it.
    ///
    /// - Returns: whether the question was asked, so that the access session must wait for the answer.
    private mutating func ask(_ pendingQuestion: NaivePendingQuestion) -> Bool {
        guard let accessSession = accessSessions.first(where: { $0.id == pendingQuestion.accessSession })
        else { return true }
        endOthers(of: accessSession.presenter, besides: pendingQuestion.cause.party)
        if isForbidden(pendingQuestion, accessSession.presenter) {
            forget(pendingQuestion)
            return false
        }
        if pendingQuestion.ask.request == .save, isSparedSaving(accessSession.presenter, pendingQuestion) {
            let saving = questions.filter { $0.presenter == accessSession.presenter && $0.request == .save }
                .map(\.id)
            change(accessSession.id) {
                $0.asked.append(pendingQuestion.ask)
                $0.awaited += saving
            }
            return false
        }
        tellFirst(accessSession)
        let moment = now
        if pendingQuestion.ask.request == .save {
            change(accessSession.presenter) {
                $0.lastAskedToSave = moment
                if pendingQuestion.isForUnmodifiedRead {
                    $0.saveAsked[pendingQuestion.cause.party.session] = moment
                }
            }
        }
        let question = Question(
            id: newQuestion(), presenter: accessSession.presenter, accessSession: accessSession.id,
            request: pendingQuestion.ask.request,
            subitem: pendingQuestion.ask.subitem,
            cause: accessSession.causes[pendingQuestion.ask] ?? pendingQuestion.cause, asked: now,
            deadline: now + span(of: pendingQuestion.ask.request))
        change(accessSession.id) { $0.asked.append(pendingQuestion.ask) }
        questions.append(question)
        effects.append(.ask(question))
        return true
    }

    /// P23, P24, P25: whether a question is forbidden at present, for example because the item was written and the presenter
    /// was not told of it yet.
    private func isForbidden(_ pendingQuestion: NaivePendingQuestion, _ id: PresenterID) -> Bool {
        let written = accessSessions.filter {
            $0.presenter == id && $0.isWriting && $0.wasWritten && $0.end == nil
        }
        switch pendingQuestion.ask.request {
        case .save:
            let presenter = presenters.first { $0.id == id }
            let isRead = !pendingQuestion.cause.access.isWrite
            return !written.isEmpty || presenter?.isOutdated ?? false
                || isRead && (presenter.map { holdsUp(pendingQuestion.cause.party, $0) } ?? false)
        case .relinquishToReader:
            return written.contains { accessSession in
                accessSession.program.isExempt(from: pendingQuestion.cause.party)
                    && accessSession.asked.contains { $0.request == .relinquishToWriter }
            }
        default: return false
        }
    }

    /// P25: whether a presenter of the reader's program has not answered a question yet, and a claim of the program of
    /// `presenter` waits for the answer.
    func holdsUp(_ reader: Party, _ presenter: NaivePresenter) -> Bool {
        if presenter.isWorkedForBy(reader) { return false }
        return claims.contains { claim in
            guard !claim.isHeld, claim.party.map(presenter.isWorkedForBy) ?? false else { return false }
            return accessSessions.contains { accessSession in
                claim.accessSessions.contains(accessSession.id) && isOpen(accessSession)
                    && presenters.contains { $0.id == accessSession.presenter && $0.isWorkedForBy(reader) }
            }
        }
    }

    /// Removes a pending question from its access session and from all claims. A claim that needs the question later adds it to
    /// its session.
    private mutating func forget(_ pendingQuestion: NaivePendingQuestion) {
        for index in claims.indices {
            claims[index].pendingQuestions.removeAll {
                $0.accessSession == pendingQuestion.accessSession && $0.ask == pendingQuestion.ask
            }
        }
        change(pendingQuestion.accessSession) { accessSession in
            accessSession.order.removeAll { $0 == pendingQuestion.ask }
            accessSession.causes[pendingQuestion.ask] = nil
            accessSession.owed.removeAll { $0.ask == pendingQuestion.ask }
        }
    }

    /// N5: before a question, sends the presenter the notices of changes that happened before, and lets it reacquire the item.
    private mutating func tellFirst(_ asking: NaiveAccessSession) {
        for accessSession in accessSessions
        where accessSession.presenter == asking.presenter && accessSession.id != asking.id {
            if accessSession.isWriting, accessSession.end != nil {
                end(accessSession.id)
            } else {
                tellNow(accessSession.id)
            }
        }
        tellNow(asking.id)
    }

    /// P9: whether a question to save is omitted, because the presenter was asked to save, or has saved, a short time ago.
    private func isSparedSaving(_ id: PresenterID, _ pendingQuestion: NaivePendingQuestion) -> Bool {
        guard let presenter = presenters.first(where: { $0.id == id }) else { return true }
        if bounds.askAgain == .zero { return false }
        if questions.contains(where: { $0.presenter == id && $0.request == .save }) { return true }
        guard pendingQuestion.isForUnmodifiedRead else { return false }
        let session = pendingQuestion.cause.party.session
        let moments = [session == 0 ? nil : presenter.saveAsked[session], presenter.lastSaved]
        return moments.contains { $0.map { now.since($0) < bounds.askAgain } ?? false }
    }

    /// P4: the time in which the presenter must answer a question.
    private func span(of request: PresenterRequest) -> TimeSpan {
        switch request {
        case .relinquishToReader, .relinquishToWriter: bounds.relinquish
        case .save: bounds.save
        case .accommodateDeletion, .accommodateSubitemDeletion: bounds.deletion
        }
    }

    mutating func take(_ answer: Answer, to id: QuestionID, by presenter: PresenterID) {
        // P8, P12: an answer resets the number of the presenter's forfeits in a row. It also removes the marks of all items
        // that were written without the presenter's consent.
        change(presenter) { ($0.forfeits, $0.unaskedWrites) = (0, []) }
        guard let question = questions.first(where: { $0.id == id && $0.presenter == presenter }) else {
            return
        }
        let concerned = accessSessions(waitingFor: question)
        questions.removeAll { $0.id == id }
        if answer == .failed, !question.request.isRelinquishment {
            for accessSession in concerned { failTurn(accessSession) }
        }
        advanceAccessSessions()
        leaveIfEmpty(question.accessSession)
    }

    /// P9: the access session in which a question was asked, and the sessions that wait for the answer to the same question.
    private func accessSessions(waitingFor question: Question) -> [NaiveAccessSession] {
        accessSessions.filter { $0.id == question.accessSession || $0.awaited.contains(question.id) }
    }

    /// P13: refuses the waiting aware claims of an access session, because a presenter answered with an error.
    private mutating func failTurn(_ accessSession: NaiveAccessSession) {
        change(accessSession.id) { $0.isRefused = true }
        let failing = members(of: accessSession.id).filter { !claims[$0].isHeld && claims[$0].isOfSocket }
        for id in failing.map({ claims[$0].id }) {
            if let index = index(of: id) { refuse(index, .presenterFailed) }
        }
    }

    /// P7: forfeits a question that was not answered in time. From now on, the access sessions that wait for the answer ask
    /// nothing, and neither do the processes that caused the question.
    mutating func forfeit(_ question: Question) {
        let concerned = accessSessions(waitingFor: question)
        questions.removeAll { $0.id == question.id }
        change(question.presenter) { $0.forfeits += 1 }
        excuse(question.cause.party, question.presenter)
        for accessSession in concerned {
            if accessSession.id != question.accessSession {
                excuse(accessSession.program, question.presenter)
            }
            change(accessSession.id) { $0.isForfeited = true }
        }
        let isDemoted = presenters.first { $0.id == question.presenter }?.isDemoted ?? false
        effects.append(.forfeit(question, isDemoted: isDemoted))
        leaveIfEmpty(question.accessSession)
    }

    /// P4: gives a question a shorter time to answer.
    mutating func hurry(_ id: QuestionID, _ span: TimeSpan) {
        guard let index = questions.firstIndex(where: { $0.id == id }) else { return }
        let least = max(now, questions[index].asked + span)
        questions[index].deadline = min(questions[index].deadline, least)
    }

    /// P4: gives a question its full time once more, because the presenter has reported progress.
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
