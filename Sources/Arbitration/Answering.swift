// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What presenters answer, and what follows if they do not.
extension Arbiter {
    mutating func answer(
        _ id: QuestionID, by presenter: PresenterID, _ answer: Answer, _ effects: inout [Effect]
    ) {
        // P8: late or not, it answers again.
        desk.records[presenter]?.forfeits = 0
        desk.records[presenter]?.passedOver = []
        guard desk.questions[id]?.presenter == presenter, let question = desk.close(id) else { return }
        // A relinquishment cannot be refused.
        let hasFailed = answer == .failed && !question.request.isRelinquishment
        suspectRelatives(of: question)
        settle(question, isUnanswered: hasFailed, &effects) { arbiter, turn, effects in
            if hasFailed { arbiter.refuseAware(in: turn, &effects) }
        }
    }

    /// P4, P7, P8: the time of a request ran out.
    mutating func forfeit(_ id: QuestionID, _ effects: inout [Effect]) {
        guard let question = desk.close(id) else { return }
        desk.records[question.presenter]?.forfeits += 1
        let isDemoted = desk.records[question.presenter]?.isDemoted ?? false
        effects.append(.forfeit(question, isDemoted: isDemoted))
        suspectRelatives(of: question)
        // P4: the turn for which it was asked may be over.
        excuse(question.cause.party, by: question.presenter)
        settle(question, isUnanswered: true, &effects) { arbiter, turn, _ in
            guard let entry = arbiter.desk.turns.index(forKey: turn) else { return }
            arbiter.desk.turns.values[entry].wanted = []
            arbiter.desk.turns.values[entry].hasForfeited = true
            if turn == question.turn { return }
            arbiter.excuse(arbiter.desk.turns.values[entry].party, by: question.presenter)
        }
    }

    /// P7. Forgets those whose time is over: they need not come again.
    mutating func excuse(_ party: Party, by id: PresenterID) {
        guard let process = party.process, var excused = desk.records[id]?.excused else { return }
        excused = excused.filter { now <= $0.value }
        excused[process] = now + bounds.excused
        desk.records[id]?.excused = excused
    }

    /// Goes on with every turn that waited for an answer.
    private mutating func settle(
        _ question: Question, isUnanswered: Bool, _ effects: inout [Effect],
        _ body: (inout Arbiter, TurnID, inout [Effect]) -> Void
    ) {
        for id in desk.records[question.presenter]?.turns ?? [] {
            guard let entry = desk.turns.index(forKey: id),
                desk.turns.values[entry].question == question.id
            else { continue }
            desk.turns.values[entry].question = nil
            if isUnanswered { desk.turns.values[entry].isUnanswered = true }
            body(&self, id, &effects)
            askNext(in: id, &effects)
        }
    }

    /// P13: whoever asked over the socket is told of the refusal instead of going ahead.
    private mutating func refuseAware(in turn: TurnID, _ effects: inout [Effect]) {
        for id in desk.turns[turn]?.members ?? [] {
            guard let claim = claims[id], claim.isAware, !claim.isHeld else { continue }
            refuse(claim, .presenterFailed, &effects)
        }
    }

    /// D2: whoever works for the presenter holds nobody up on its account any more.
    private mutating func suspectRelatives(of question: Question) {
        if let party = desk.records[question.presenter]?.presenter.party { suspectRelatives(of: party) }
    }

    /// P4: the presenter is at work.
    mutating func progress(_ id: QuestionID) {
        guard let entry = desk.questions.index(forKey: id) else { return }
        let question = desk.questions.values[entry]
        let deadline = min(now + time(for: question.request), question.asked + bounds.progress)
        guard deadline > question.deadline else { return }
        desk.questions.values[entry].deadline = deadline
        alarms.insert(Alarms.Alarm(moment: deadline, subject: .question(id)))
        for turn in desk.records[question.presenter]?.turns ?? [] where desk.turns[turn]?.question == id {
            for member in desk.turns[turn]?.members ?? [] { extendWait(of: member, to: deadline) }
        }
    }

    /// P4: the presenter is given less time, though never less than it has had.
    mutating func hurry(_ id: QuestionID, to span: Span) {
        guard let entry = desk.questions.index(forKey: id) else { return }
        let deadline = max(desk.questions.values[entry].asked + span, now)
        guard deadline < desk.questions.values[entry].deadline else { return }
        desk.questions.values[entry].deadline = deadline
        alarms.insert(Alarms.Alarm(moment: deadline, subject: .question(id)))
    }

    private mutating func extendWait(of id: ClaimID, to deadline: Instant) {
        guard let wait = waits.index(forKey: id) else { return }
        let extended = min(deadline, waits.values[wait].began + bounds.progress)
        guard extended > waits.values[wait].deadline else { return }
        waits.values[wait].deadline = extended
        alarms.insert(Alarms.Alarm(moment: extended, subject: .claim(id)))
    }

    /// P14: consent by absence.
    mutating func removePresenter(_ id: PresenterID) {
        guard let record = desk.records[id] else { return }
        for question in record.questions { _ = desk.close(question) }
        // D2: nobody works for it any more.
        suspectRelatives(of: record.presenter.party)
        for turn in record.turns {
            guard let ended = desk.turns.removeValue(forKey: turn) else { continue }
            for member in ended.members {
                desk.inquiries[member]?.turns.removeAll { $0 == turn }
                if claims[member]?.isHeld ?? false { shaken.append(member) } else { unsettled.append(member) }
            }
        }
        leavePlace(id)
        desk.leave(id)
        desk.records[id] = nil
        desk.shrink()
        if record.presenter.messages.contains(.accommodateSubitemDeletion) { desk.agreeingToDeletions -= 1 }
        // Who waits to be identified does so for presenters' sake, and this was perhaps the last.
        unsettled += unnamed
    }
}
