// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How presenters are selected and asked before a claim is granted.
extension Arbiter {
    /// Asks the presenters of a claim, if they were not asked yet. Returns whether all have answered. Called when no
    /// other claim blocks the claim.
    ///
    /// P1: Presenters are selected only now, because the item of the claim can change while other claims block the
    /// claim.
    mutating func isConsented(_ claim: Claim, _ effects: inout [Effect]) -> Bool {
        if registry.consultations[claim.id] == nil {
            guard concernsPresenters(claim) else { return true }
            guard let party = families.party(of: claim.id) else {
                waits.requestIdentity(of: claim.id)
                requestIdentity(claim.id, &effects)
                return false
            }
            consult(claim, party, &effects)
        }
        return registry.settles(claim.id)
    }

    private mutating func consult(_ claim: Claim, _ party: Party, _ effects: inout [Effect]) {
        registry.beginConsultation(of: claim.id)
        claims.update(claim.id) { $0.hasConsulted = true }
        // D2: From now on the claim waits for answers, so it may now be part of a cycle.
        agenda.addCycleCandidate(claim.id)
        if claim.onlyReads { noteOwnReading(claim, party) }
        let unaskedWrites = unaskedWritesOfMuted(by: claim, party)
        registry.updateConsultation(of: claim.id) { $0.unaskedWrites = unaskedWrites }
        var begun: [AccessSessionID] = []
        for (id, questionPlan) in questionPlans(of: claim, party).sorted(by: { $0.key < $1.key }) {
            if goesOnExcused(party, by: id) || registry.records[id]?.isLeftAlone ?? false {
                registry.updateConsultation(of: claim.id) { $0.skippedPresenters.append(id) }
            }
            let unasked = questionPlan.unaskedWrites.map { (id, $0) }
            registry.updateConsultation(of: claim.id) { $0.unaskedWrites += unasked }
            guard let accessSession = enter(claim, questionPlan, party, sessionOf: id, &effects) else {
                continue
            }
            begun.append(accessSession)
        }
        // P3: All presenters are asked at the same time, and each presenter gets one question after another.
        for accessSession in begun {
            askNext(in: accessSession, &effects)
            // The open question can be one that an earlier claim has caused. This claim then waits for the same answer.
            if let accessSession = registry.accessSessions[accessSession], accessSession.question != nil {
                reviewRelatives(accessSession.presenter)
            }
        }
    }

    /// P24: Notes that a presenter, or a program that works for it, has read the presenter's item.
    private mutating func noteOwnReading(_ claim: Claim, _ party: Party) {
        var readers: [PresenterID] = []
        claim.forEachPart { part in
            forEachConcerned(by: part, of: claim) { id, relation in
                guard relation != .directory, let record = registry.records[id], record.isOutdated,
                    isOwn(party, record.presenter.party) || isSpared(record.presenter.party, by: party)
                else { return }
                readers.append(id)
            }
        }
        for id in readers { registry.updateRecord(id) { $0.isOutdated = false } }
    }

    /// P20: The questions of a claim to each presenter that the claim concerns. The party's own presenters are left
    /// out.
    func questionPlans(of claim: Claim, _ party: Party) -> [PresenterID: QuestionPlan] {
        // X7: A lease itself reads and writes nothing. Presenters are asked about the accesses of its run.
        if party.isLease { return [:] }
        var concerned: [(PresenterID, PresenterRelation, ClaimRequest.Part)] = []
        claim.forEachPart { part in
            forEachConcerned(by: part, of: claim) { concerned.append(($0, $1, part)) }
        }
        var questionPlans: [PresenterID: QuestionPlan] = [:]
        for (id, relation, part) in concerned {
            guard let record = registry.records[id], !isOwn(party, record.presenter.party) else { continue }
            let isSpared = isSpared(record.presenter.party, by: party)
            let questionKinds = isSpared ? [] : questionKinds(of: claim, part, relation, party, on: id)
            let isNotified = relation == .item || relation == .package
            // P7: A presenter is not asked if it has just forfeited a question for this party. P8, N15: Nor is it asked
            // after three forfeits in a row, or while it is muted.
            let isAsked = !record.isLeftAlone && !isExcused(party, by: id)
            questionPlans[id, default: QuestionPlan(access: part.access)].add(
                isAsked ? questionKinds : [], for: part.access, isNotified: isNotified)
            // P12: The list gets no presenters of plain directories, because these have no contents at risk. It gets no
            // muted presenters, because `unaskedWritesOfMuted` lists them.
            guard part.access.isWrite, relation != .directory, record.mute == nil else { continue }
            let isLeftAlone = !isAsked && !questionKinds.isEmpty
            if isLeftAlone || (!isSpared && hasNotConsented(claim, part, record)) {
                questionPlans[id]?.unaskedWrites.append(part.item)
            }
        }
        return questionPlans
    }

    /// Adds a claim to its access session with a presenter, and adds the questions that the claim needs.
    private mutating func enter(
        _ claim: Claim, _ questionPlan: QuestionPlan, _ party: Party, sessionOf id: PresenterID,
        _ effects: inout [Effect]
    ) -> AccessSessionID? {
        guard let record = registry.records[id] else { return nil }
        // P5, P6: Until a presenter has answered its question, accesses by programs that work for the presenter are
        // treated as the presenter's own accesses.
        if isOnItsBehalf(party, answering: claim.answering, record) {
            registry.updateConsultation(of: claim.id) { $0.ownPresenters.append(id) }
            return nil
        }
        // N15: A muted presenter is not asked.
        if record.mute != nil { return nil }
        let questionKinds = questionPlan.inOrder
        guard questionPlan.isNotified || !questionKinds.isEmpty else { return nil }
        endTrailingSessions(of: record, but: party, &effects)
        let present = currentAccessSession(
            of: party, isWrite: questionPlan.access.isWrite, at: record, &effects)
        // A read that causes no question also causes no notice later, so it needs no access session.
        guard present != nil || questionPlan.access.isWrite || !questionKinds.isEmpty else { return nil }
        let accessSession = present ?? makeAccessSession(with: id, party, questionPlan.access)
        registry.updateAccessSession(accessSession) { accessSession in
            for (questionKind, access) in questionKinds {
                accessSession.enqueue(questionKind, Cause(party, access), by: claim.id)
            }
            accessSession.noteAccess(Cause(party, questionPlan.access))
        }
        registry.addMember(claim.id, to: accessSession)
        registry.eventCounts.countItemEvent(of: record)
        noteGuestWaiters(in: accessSession, by: [claim.id])
        return accessSession
    }

    mutating func makeAccessSession(with presenter: PresenterID, _ party: Party, _ access: Access)
        -> AccessSessionID
    {
        let id = registry.makeAccessSessionID()
        registry.insert(
            AccessSession(
                id: id, presenter: presenter, isWrite: access.isWrite, party: party, began: now,
                cause: Cause(party, access)))
        return id
    }

    /// Asks the next question of an access session. If there is none, the claims of the session no longer wait for this
    /// presenter.
    mutating func askNext(in id: AccessSessionID, _ effects: inout [Effect]) {
        guard let former = registry.accessSessions[id], former.question == nil else { return }
        guard !former.pendingQuestions.isEmpty else { return settled(former, &effects) }
        let pendingQuestion = former.pendingQuestions[0]
        registry.updateAccessSession(id) { _ = $0.pendingQuestions.removeFirst() }
        guard let accessSession = registry.accessSessions[id] else { return }
        if let record = registry.records[accessSession.presenter] {
            endTrailingSessions(of: record, but: pendingQuestion.cause.party, &effects)
            if isNeedless(pendingQuestion, record) { return askNext(in: id, &effects) }
        }
        let (questionKind, request) = (pendingQuestion.questionKind, pendingQuestion.questionKind.request)
        // Y1: Held claims of the access session have a contention from now on, because the presenter waits for them.
        if request.isRelinquishment { agenda.addHolders(accessSession.members) }
        agenda.addCycleCandidates(accessSession.members)
        // P9: If another access session has asked the presenter to save, this session waits for the answer to that
        // question.
        if request == .save, bounds.askAgain > .zero,
            let open = registry.openSave(of: accessSession.presenter)
        {
            registry.updateAccessSession(id) { $0.take(open, questionKind, asksAboutLoss: false) }
            return noteGuestWaiters(in: id, by: accessSession.members)
        }
        tellBeforeAsking(in: accessSession, &effects)
        let question = Question(
            id: registry.makeQuestionID(), presenter: accessSession.presenter, accessSession: id,
            request: request,
            subitem: questionKind.subitem, cause: pendingQuestion.cause, asked: now,
            deadline: now + time(for: request))
        registry.updateAccessSession(id) {
            $0.take(question.id, questionKind, asksAboutLoss: pendingQuestion.loss != nil)
        }
        registry.open(question)
        noteGuestWaiters(in: id, by: accessSession.members)
        if request == .save {
            noteSaveAsked(of: accessSession.presenter, for: pendingQuestion.cause.party.session)
        }
        clock.setTimer(for: .question(question.id), at: question.deadline)
        effects.append(.ask(question))
        if let record = registry.records[accessSession.presenter] {
            registry.eventCounts.countItemEvent(of: record)
        }
        reviewRelatives(accessSession.presenter)
    }

    /// Whether a planned question has become needless, because of events since it was planned.
    private func isNeedless(_ pendingQuestion: PendingQuestion, _ record: PresenterRecord) -> Bool {
        let party = pendingQuestion.cause.party
        let written = record.accessSessions.compactMap { registry.accessSessions[$0] }.filter(
            \.isBeingWritten)
        switch pendingQuestion.questionKind.request {
        case .save:
            // P9: Perhaps another reader has caused a save since the question was planned.
            if !pendingQuestion.cause.access.isWrite, !mayAskToSave(party, record) { return true }
            // P23, P24: The presenter would overwrite contents of which it was not told.
            return !written.isEmpty || record.isOutdated
        // P23: A presenter that has relinquished to a writer of the same program need not relinquish to the reader. A question
        // that is only planned does not count.
        case .relinquishToReader:
            let hasLetWritersIn = { (accessSession: AccessSession) in
                accessSession.asked.contains(QuestionKind(request: .relinquishToWriter))
            }
            return written.contains { $0.party.isOneProgram(with: party) && hasLetWritersIn($0) }
        case .relinquishToWriter, .accommodateDeletion, .accommodateSubitemDeletion: return false
        }
    }

    /// P3: Called when a claim is granted: removes the claim's questions that were not asked yet.
    mutating func stopAsking(for id: ClaimID) {
        for accessSession in registry.consultations[id]?.accessSessions ?? [] {
            registry.updateAccessSession(accessSession) { $0.stopAsking(for: id) }
        }
    }

    /// P6: Called when a presenter is asked. Reviews the waiting claims of the presenter's programs: they can be
    /// granted before claims that wait for the answer.
    private mutating func reviewRelatives(_ presenter: PresenterID) {
        guard let party = registry.records[presenter]?.presenter.party else { return }
        families.waiters.forEachRelative(of: party) { agenda.addGrantCandidate($0) }
    }

    private mutating func settled(_ accessSession: AccessSession, _ effects: inout [Effect]) {
        agenda.addGrantCandidates(accessSession.members)
        if accessSession.members.isEmpty, accessSession.end == nil { beginTrailing(accessSession.id) }
    }

    /// P4: The time limit for the answer to a question.
    func time(for request: PresenterRequest) -> TimeSpan {
        switch request {
        case .relinquishToReader, .relinquishToWriter: bounds.relinquish
        case .save: bounds.save
        case .accommodateDeletion, .accommodateSubitemDeletion: bounds.deletion
        }
    }
}
