// SPDX-License-Identifier: Apache-2.0
import Coordination

/// All accesses of one program to a presented item without a longer pause.
///
///     open (has members) ──last member leaves──▶ trailing ──`trailing` later──▶ ended
///           ▲                                       │
///           └──────────another access───────────────┘
struct AccessSession: Sendable {
    let id: AccessSessionID
    let presenter: PresenterID
    let isWrite: Bool
    var party: Party
    let began: Instant
    var cause: Cause
    /// The claims of the access session: they wait for answers of the presenter, or are held and not suspended.
    var members: [ClaimID] = []
    /// The questions that are still to be asked in this access session, in their order.
    var pendingQuestions: [PendingQuestion] = []
    /// P9: The open question for which the access session waits; another session may have asked it.
    var question: QuestionID?
    /// The questions that were asked in this access session, answered or not.
    var asked: [QuestionKind] = []
    /// Whether any question of the access session was answered with an error, or forfeited.
    var lacksConsent = false
    /// P23: Whether a write of the access session was granted. Then the contents may differ from those that the
    /// presenter knows.
    var isEntered = false
    /// P7: Whether a question of the access session was forfeited, so that no more questions are asked in it.
    var hasForfeited = false
    /// The number of the question about a deletion that has happened already.
    var lossQuestion: QuestionID?
    /// N9: The cause of the last change of the presented item, and that of its deletion.
    var changed: Cause?
    var deleted: Cause?
    /// N11: Moves of the item and of directories above it that were not undone, in their order.
    var moves: [OwnMove] = []
    /// N8: The events of items below the presented item, by name.
    var nameEvents = NameEventLog()
    /// The moment at which the access session will end; nil while it has members or an open question.
    var end: Instant?

    /// N3: Whether the presenter relinquished the item in this access session, so that it must receive a reacquire.
    var isRelinquished: Bool { asked.contains { $0.request.isRelinquishment } }
    var moved: Cause? { moves.last?.cause }
    var hasItemEvents: Bool { changed != nil || moved != nil || deleted != nil }
    var hasUnreported: Bool { isRelinquished || hasItemEvents || nameEvents.hasUnreported }
    /// N10: Whether names have changed in the access session, as in a save of several steps.
    var hasSteps: Bool { moved != nil || deleted != nil || nameEvents.hasSteps }
    /// P23: Whether a write was granted in the access session, and the session still has claims in it.
    var isBeingWritten: Bool { isWrite && isEntered && end == nil }
    var isSettled: Bool { question == nil && pendingQuestions.isEmpty }
    /// P2: Whether the access session asks about a deletion that has happened. Then it goes on although no claim waits
    /// for the answer.
    var asksAboutLoss: Bool {
        pendingQuestions.contains { $0.loss != nil } || (question != nil && question == lossQuestion)
    }
}

/// N2: A move by which the presented item got another name or path.
struct OwnMove: Sendable {
    /// The item that was moved: the presented item, or a directory above it.
    let item: ItemID
    /// The name of the moved item before the access session.
    let former: Place
    let cause: Cause
}

/// A question without its cause. An access session compares these values, so that it asks the same question only once.
struct QuestionKind: Hashable, Sendable {
    let request: PresenterRequest
    /// For a question about an item below the presented item: the item that is to be deleted.
    var subitem: ItemID?
}

/// A question that is still to be asked in an access session.
struct PendingQuestion: Sendable {
    let questionKind: QuestionKind
    var cause: Cause
    /// The claims that wait for the answer to the question.
    var claims: [ClaimID] = []
    /// P2: The cause of a deletion that has happened already. The presenter is asked about it even if no claim waits.
    var loss: Cause?
}

extension AccessSession {
    /// Whether a question was asked in the access session, or is still to be asked.
    func includes(_ questionKind: QuestionKind) -> Bool {
        asked.contains(questionKind) || pendingQuestions.contains { $0.questionKind == questionKind }
    }

    /// P3: Adds a question, unless it was asked in the access session. P22: A presenter that has relinquished to a
    /// writer is not asked to relinquish to a reader.
    mutating func enqueue(_ questionKind: QuestionKind, _ cause: Cause, by claim: ClaimID) {
        // P7: After a forfeit nothing more is asked in the access session.
        if hasForfeited { return }
        let hasLetWritersIn = includes(QuestionKind(request: .relinquishToWriter))
        if asked.contains(questionKind) || (questionKind.request == .relinquishToReader && hasLetWritersIn) {
            return
        }
        if let place = pendingQuestions.firstIndex(where: { $0.questionKind == questionKind }) {
            pendingQuestions[place].claims.append(claim)
        } else {
            let pendingQuestion = PendingQuestion(questionKind: questionKind, cause: cause, claims: [claim])
            // A question to relinquish comes before all other questions.
            let place = questionKind.request.isRelinquishment ? 0 : pendingQuestions.count
            pendingQuestions.insert(pendingQuestion, at: place)
        }
    }

    /// P2: Adds a question about a deletion that has happened. If this question is open already, the access session
    /// waits for its answer. Returns whether an answer is outstanding.
    mutating func enqueueAboutLoss(_ questionKind: QuestionKind, _ cause: Cause, isOpen: (QuestionID) -> Bool)
        -> Bool
    {
        if hasForfeited { return false }
        if asked.contains(questionKind) {
            guard let question, isOpen(question) else { return false }
            lossQuestion = question
            return true
        }
        if let place = pendingQuestions.firstIndex(where: { $0.questionKind == questionKind }) {
            pendingQuestions[place].loss = cause
        } else {
            pendingQuestions.append(PendingQuestion(questionKind: questionKind, cause: cause, loss: cause))
        }
        return true
    }

    /// N11: Notes a move of an item. If the presenter was not told of an earlier move, and the item is back at its
    /// former name, both moves are forgotten.
    mutating func noteMove(of item: ItemID, _ move: Move, _ cause: Cause) {
        let former = moves.first { $0.item == item }?.former
        moves.removeAll { $0.item == item }
        if former == move.to { return }
        moves.append(OwnMove(item: item, former: former ?? move.from, cause: cause))
    }

    /// N5: Forgets the events that the presenter was told of: all but the deletions in `heldBack`.
    mutating func discardReportedEvents(but heldBack: Set<NameKey>) {
        discardItemEvents()
        nameEvents.discardReported(heldBack: heldBack)
    }

    /// N3: Forgets the events of the presented item that the presenter was told of: all but its deletion.
    mutating func discardItemEvents() { (moves, changed) = ([], nil) }

    /// N8: Forgets all events, because the presenter was told of all of them.
    mutating func discardAllEvents() {
        discardReportedEvents(but: [])
        deleted = nil
    }

    /// Notes an access that is a part of the access session.
    mutating func noteAccess(_ cause: Cause) {
        // The first access with a purpose gives its purpose to the access session. Accesses with other purposes then
        // get sessions of their own.
        if party.purpose == nil, cause.party.purpose != nil { party = cause.party }
        self.cause = cause
    }

    /// Notes that the open question of the access session was answered or forfeited.
    mutating func closeQuestion(lacksConsent isRefused: Bool) {
        question = nil
        if isRefused { lacksConsent = true }
    }

    /// P7: Forgets all questions that were not asked yet, because the presenter forfeited one.
    mutating func forfeitPendingQuestions() { (pendingQuestions, hasForfeited) = ([], true) }

    /// Notes that a question was asked in the access session.
    mutating func take(_ question: QuestionID, _ questionKind: QuestionKind, asksAboutLoss: Bool) {
        asked.append(questionKind)
        self.question = question
        if asksAboutLoss { lossQuestion = question }
    }

    /// P3: Removes the questions that no other claim than this one waits for.
    mutating func stopAsking(for claim: ClaimID) {
        pendingQuestions = pendingQuestions.compactMap { pendingQuestion in
            guard pendingQuestion.claims.contains(claim) else { return pendingQuestion }
            var pendingQuestion = pendingQuestion
            pendingQuestion.claims.removeAll { $0 == claim }
            if !pendingQuestion.claims.isEmpty { return pendingQuestion }
            return pendingQuestion.loss.map {
                PendingQuestion(questionKind: pendingQuestion.questionKind, cause: $0, loss: $0)
            }
        }
    }
}
