// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The answers of presenters, and the consequences of silence.
extension Arbiter {
    mutating func answer(
        _ id: QuestionID, by presenter: PresenterID, _ answer: Answer, _ effects: inout [Effect]
    ) {
        // P8: late or not, the presenter answers again.
        registry.records[presenter]?.forfeits = 0
        registry.records[presenter]?.unaskedWrites = []
        guard registry.questions[id]?.presenter == presenter, let question = registry.close(id) else {
            return
        }
        // A presenter cannot refuse to relinquish.
        let hasFailed = answer == .failed && !question.request.isRelinquishment
        addRelativesToCandidates(of: question)
        resumeAccessSessions(question, lacksConsent: hasFailed, &effects) { arbiter, accessSession, effects in
            if hasFailed { arbiter.refuseAware(in: accessSession, &effects) }
        }
    }

    /// P4, P7, P8: Forfeits a question at its deadline.
    mutating func forfeit(_ id: QuestionID, _ effects: inout [Effect]) {
        guard let question = registry.close(id) else { return }
        registry.records[question.presenter]?.forfeits += 1
        let isDemoted = registry.records[question.presenter]?.isDemoted ?? false
        effects.append(.forfeit(question, isDemoted: isDemoted))
        addRelativesToCandidates(of: question)
        // P4: the session that asked may have ended.
        excuse(question.cause.party, by: question.presenter)
        resumeAccessSessions(question, lacksConsent: true, &effects) { arbiter, accessSession, _ in
            guard let entry = arbiter.registry.accessSessions.index(forKey: accessSession) else { return }
            arbiter.registry.accessSessions.values[entry].pendingQuestions = []
            arbiter.registry.accessSessions.values[entry].hasForfeited = true
            if accessSession == question.accessSession { return }
            arbiter.excuse(arbiter.registry.accessSessions.values[entry].party, by: question.presenter)
        }
    }

    /// P7: Excuses a party, and removes entries that are over.
    mutating func excuse(_ party: Party, by id: PresenterID) {
        guard let process = party.process, var excused = registry.records[id]?.excused else { return }
        excused = excused.filter { now <= $0.value }
        excused[process] = now + bounds.excused
        registry.records[id]?.excused = excused
    }

    /// Continues every session that waited for an answer.
    private mutating func resumeAccessSessions(
        _ question: Question, lacksConsent: Bool, _ effects: inout [Effect],
        _ body: (inout Arbiter, AccessSessionID, inout [Effect]) -> Void
    ) {
        for id in registry.records[question.presenter]?.accessSessions ?? [] {
            guard let entry = registry.accessSessions.index(forKey: id),
                registry.accessSessions.values[entry].question == question.id
            else { continue }
            registry.accessSessions.values[entry].question = nil
            if lacksConsent { registry.accessSessions.values[entry].lacksConsent = true }
            body(&self, id, &effects)
            askNext(in: id, &effects)
        }
    }

    /// P13: Refuses the waiting aware claims of a session, because the presenter failed.
    private mutating func refuseAware(in accessSession: AccessSessionID, _ effects: inout [Effect]) {
        for id in registry.accessSessions[accessSession]?.members ?? [] {
            guard let claim = claims[id], claim.isAware, !claim.isHeld else { continue }
            refuse(claim, .presenterFailed, &effects)
        }
    }

    /// D2: Adds relatives of the presenter, which hold up no claim because of this question any more.
    private mutating func addRelativesToCandidates(of question: Question) {
        if let party = registry.records[question.presenter]?.presenter.party {
            addRelativesToCandidates(of: party)
        }
    }

    /// P4: Extends the time of a question, because its presenter reports progress.
    mutating func progress(_ id: QuestionID) {
        guard let entry = registry.questions.index(forKey: id) else { return }
        let question = registry.questions.values[entry]
        let deadline = min(now + time(for: question.request), question.asked + bounds.progress)
        guard deadline > question.deadline else { return }
        registry.questions.values[entry].deadline = deadline
        clock.setTimer(for: .question(id), at: deadline)
        for accessSession in registry.records[question.presenter]?.accessSessions ?? []
        where registry.accessSessions[accessSession]?.question == id {
            for member in registry.accessSessions[accessSession]?.members ?? [] {
                extendWait(of: member, to: deadline)
            }
        }
    }

    /// P4: Shortens the time of a question, but to no moment in the past.
    mutating func hurry(_ id: QuestionID, to span: TimeSpan) {
        guard let entry = registry.questions.index(forKey: id) else { return }
        let deadline = max(registry.questions.values[entry].asked + span, now)
        guard deadline < registry.questions.values[entry].deadline else { return }
        registry.questions.values[entry].deadline = deadline
        clock.setTimer(for: .question(id), at: deadline)
    }

    private mutating func extendWait(of id: ClaimID, to deadline: Instant) {
        guard let extended = waits.extend(id, to: deadline, atMost: bounds.progress) else { return }
        clock.setTimer(for: .claim(id), at: extended)
    }

    /// P14: Removes a presenter, which counts as its consent.
    mutating func removePresenter(_ id: PresenterID) {
        guard let record = registry.records[id] else { return }
        for question in record.questions { _ = registry.close(question) }
        // D2: no party works for it any more.
        addRelativesToCandidates(of: record.presenter.party)
        for accessSession in record.accessSessions {
            guard let ended = registry.accessSessions.removeValue(forKey: accessSession) else { continue }
            for member in ended.members {
                registry.consultations[member]?.accessSessions.removeAll { $0 == accessSession }
                if claims[member]?.isHeld ?? false {
                    agenda.addHolder(member)
                } else {
                    agenda.addGrantCandidate(member)
                }
            }
        }
        leavePlace(id)
        registry.leave(id)
        registry.records[id] = nil
        registry.shrink()
        if record.presenter.messages.contains(.accommodateSubitemDeletion) {
            registry.agreeingToDeletions -= 1
        }
        // These claims wait to be identified only because of presenters, and this may have been the last presenter.
        agenda.addGrantCandidates(waits.toIdentify)
    }
}
