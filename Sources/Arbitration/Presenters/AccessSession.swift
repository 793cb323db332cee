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
    /// The claims of the access session. Each claim waits for an answer of the presenter, or is held and not suspended.
    var members: [ClaimID] = []
    /// The questions that are not asked yet in this access session, the next question first.
    var pendingQuestions: [PendingQuestion] = []
    /// P9: The open question for which the access session waits. Perhaps another access session has asked the question.
    var question: QuestionID?
    /// The questions that were asked in this access session, answered or not.
    var asked: [QuestionKind] = []
    /// Whether any question of the access session was answered with an error, or forfeited.
    var lacksConsent = false
    /// P23: Whether a write of the access session was granted. If so, the presenter perhaps does not know the present
    /// contents.
    var isEntered = false
    /// P7: Whether the presenter has forfeited a question of the access session. If so, the session asks no more
    /// questions.
    var hasForfeited = false
    /// The number of the question about a deletion that has happened already.
    var lossQuestion: QuestionID?
    /// N9: The cause of the last change of the presented item. `deleted` has the cause of the item's deletion.
    var changed: Cause?
    var deleted: Cause?
    /// N11: Moves of the presented item, and of directories above the item, in the order in which they happened. Moves
    /// that were undone are left out.
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
    /// P23: Whether a write was granted in the access session, and the session still has claims.
    var isBeingWritten: Bool { isWrite && isEntered && end == nil }
    var isSettled: Bool { question == nil && pendingQuestions.isEmpty }
    /// P2: Whether the access session asks about a deletion that has happened already. If so, the session goes on until
    /// the answer, although no claim waits for it.
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

/// A question without its cause. An access session asks each such question only once, even if several accesses cause
/// it.
struct QuestionKind: Hashable, Sendable {
    let request: PresenterRequest
    /// The item below the presented item that is to be deleted; nil for a question about the presented item itself.
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

    /// P3: Adds a question, unless the access session has asked this question already. P22: A presenter that has
    /// relinquished to a writer is not asked to relinquish to a reader.
    mutating func enqueue(_ questionKind: QuestionKind, _ cause: Cause, by claim: ClaimID) {
        // P7: After a forfeited question, the access session asks no more questions.
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

    /// P2: Adds a question about a deletion that has happened already, unless the question was asked before. Returns
    /// whether the access session must wait for an answer.
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

    /// N11: Notes a move of an item. If the item is back at the name that the presenter knows, forgets all moves of the
    /// item.
    mutating func noteMove(of item: ItemID, _ move: Move, _ cause: Cause) {
        let former = moves.first { $0.item == item }?.former
        moves.removeAll { $0.item == item }
        if former == move.to { return }
        moves.append(OwnMove(item: item, former: former ?? move.from, cause: cause))
    }

    /// N5: Called when the presenter was told of all events except the deletions in `heldBack`: forgets the other
    /// events.
    mutating func discardReportedEvents(but heldBack: Set<NameKey>) {
        discardItemEvents()
        nameEvents.discardReported(heldBack: heldBack)
    }

    /// N3: Called when the presenter was told of the moves and changes of its item: forgets these events, but not a
    /// deletion.
    mutating func discardItemEvents() { (moves, changed) = ([], nil) }

    /// N8: Forgets all events, because the presenter was told of all of them.
    mutating func discardAllEvents() {
        discardReportedEvents(but: [])
        deleted = nil
    }

    /// Notes an access that is a part of the access session.
    mutating func noteAccess(_ cause: Cause) {
        // The access session gets the purpose of its first access with a purpose. Accesses with another purpose get
        // another session.
        if party.purpose == nil, cause.party.purpose != nil { party = cause.party }
        self.cause = cause
    }

    /// Notes that the open question of the access session was answered or forfeited.
    mutating func closeQuestion(lacksConsent isRefused: Bool) {
        question = nil
        if isRefused { lacksConsent = true }
    }

    /// P7: Called when the presenter has forfeited a question: forgets all questions that were not asked yet.
    mutating func forfeitPendingQuestions() { (pendingQuestions, hasForfeited) = ([], true) }

    /// Notes that a question was asked in the access session.
    mutating func take(_ question: QuestionID, _ questionKind: QuestionKind, asksAboutLoss: Bool) {
        asked.append(questionKind)
        self.question = question
        if asksAboutLoss { lossQuestion = question }
    }

    /// P3: Removes the questions for which only the given claim waits.
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
