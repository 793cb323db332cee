// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Answers of presenters, and the consequences of a missing answer.
extension Arbiter {
    mutating func answer(
        _ id: QuestionID, by presenter: PresenterID, _ answer: Answer, _ effects: inout [Effect]
    ) {
        // P8: Even a late answer shows that the presenter responds, so a presenter that was not asked any more is now
        // asked again.
        registry.updateRecord(presenter) { ($0.forfeits, $0.unaskedWrites) = (0, []) }
        guard registry.questions[id]?.presenter == presenter, let question = registry.close(id) else {
            return
        }
        // An error as the answer to a question to relinquish has no effect, because a presenter cannot refuse to
        // relinquish.
        let hasFailed = answer == .failed && !question.request.isRelinquishment
        addRelativesToCandidates(of: question)
        resumeAccessSessions(question, lacksConsent: hasFailed, &effects) { arbiter, accessSession, effects in
            if hasFailed { arbiter.refuseAware(in: accessSession, &effects) }
        }
    }

    /// P4, P7, P8: Counts a question as forfeited, because its deadline has come without an answer.
    mutating func forfeit(_ id: QuestionID, _ effects: inout [Effect]) {
        guard let question = registry.close(id) else { return }
        registry.updateRecord(question.presenter) { $0.forfeits += 1 }
        let isDemoted = registry.records[question.presenter]?.isDemoted ?? false
        effects.append(.forfeit(question, isDemoted: isDemoted))
        addRelativesToCandidates(of: question)
        // P4: For some time, the party that caused the question does not wait for this presenter, even if the access
        // session of the question has ended.
        excuse(question.cause.party, by: question.presenter)
        resumeAccessSessions(question, lacksConsent: true, &effects) { arbiter, accessSession, _ in
            arbiter.registry.updateAccessSession(accessSession) { $0.forfeitPendingQuestions() }
            guard accessSession != question.accessSession,
                let party = arbiter.registry.accessSessions[accessSession]?.party
            else { return }
            arbiter.excuse(party, by: question.presenter)
        }
    }

    /// P7: Called when a presenter has forfeited a question. Stores the moment until which the party's process does not
    /// wait for this presenter.
    mutating func excuse(_ party: Party, by id: PresenterID) {
        guard let process = party.process, var excused = registry.records[id]?.excused else { return }
        excused = excused.filter { now <= $0.value }
        excused[process] = now + bounds.excused
        registry.updateRecord(id) { $0.excused = excused }
    }

    /// Continues every access session that waited for the answer to a question.
    private mutating func resumeAccessSessions(
        _ question: Question, lacksConsent: Bool, _ effects: inout [Effect],
        _ body: (inout Arbiter, AccessSessionID, inout [Effect]) -> Void
    ) {
        for id in registry.records[question.presenter]?.accessSessions ?? [] {
            guard registry.accessSessions[id]?.question == question.id else { continue }
            registry.updateAccessSession(id) { $0.closeQuestion(lacksConsent: lacksConsent) }
            body(&self, id, &effects)
            askNext(in: id, &effects)
        }
    }

    /// P13: Refuses the waiting aware claims of an access session, because the presenter answered with an error.
    private mutating func refuseAware(in accessSession: AccessSessionID, _ effects: inout [Effect]) {
        for id in registry.accessSessions[accessSession]?.members ?? [] {
            guard let claim = claims[id], claim.isAware, !claim.isHeld else { continue }
            refuse(claim, .presenterFailed, &effects)
        }
    }

    /// D2: Called when a question is closed, so that no claim waits for the presenter's answer. Adds the waiting claims
    /// of the presenter's programs to the cycle candidates.
    private mutating func addRelativesToCandidates(of question: Question) {
        if let party = registry.records[question.presenter]?.presenter.party {
            addRelativesToCandidates(of: party)
        }
    }

    /// P4: Moves the deadline of a question to a later moment, because its presenter reports progress.
    mutating func progress(_ id: QuestionID) {
        guard let question = registry.questions[id] else { return }
        let deadline = min(now + time(for: question.request), question.asked + bounds.progress)
        guard deadline > question.deadline else { return }
        registry.setDeadline(of: id, to: deadline)
        clock.setTimer(for: .question(id), at: deadline)
        for accessSession in registry.records[question.presenter]?.accessSessions ?? []
        where registry.accessSessions[accessSession]?.question == id {
            for member in registry.accessSessions[accessSession]?.members ?? [] {
                extendWait(of: member, to: deadline)
            }
        }
    }

    /// P4: Moves the deadline of a question to an earlier moment, but to no moment in the past.
    mutating func hurry(_ id: QuestionID, to span: TimeSpan) {
        guard let question = registry.questions[id] else { return }
        let deadline = max(question.asked + span, now)
        guard deadline < question.deadline else { return }
        registry.setDeadline(of: id, to: deadline)
        clock.setTimer(for: .question(id), at: deadline)
    }

    private mutating func extendWait(of id: ClaimID, to deadline: Instant) {
        guard let extended = waits.extend(id, to: deadline, atMost: bounds.progress) else { return }
        clock.setTimer(for: .claim(id), at: extended)
    }

    /// P14: Removes a presenter. Its open questions are treated as answered with consent.
    mutating func removePresenter(_ id: PresenterID) {
        guard let record = registry.records[id] else { return }
        for question in record.questions { _ = registry.close(question) }
        // D2: No claim waits for the presenter's answers any more.
        addRelativesToCandidates(of: record.presenter.party)
        for accessSession in record.accessSessions {
            guard let ended = registry.dissolve(accessSession) else { continue }
            for member in ended.members {
                if claims[member]?.isHeld ?? false {
                    agenda.addHolder(member)
                } else {
                    agenda.addGrantCandidate(member)
                }
            }
        }
        leavePlace(id)
        registry.leave(id)
        registry.remove(id)
        // If this was the last presenter, claims that wait only because presenters must be asked can be granted.
        agenda.addGrantCandidates(waits.toIdentify)
    }
}
