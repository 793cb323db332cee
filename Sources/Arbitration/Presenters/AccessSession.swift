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
    /// Claims of the party that wait for answers, or are held and not suspended.
    var members: [ClaimID] = []
    /// Questions to be asked, in this order.
    var pendingQuestions: [PendingQuestion] = []
    /// The open question; another session may have asked it (P9).
    var question: QuestionID?
    /// The questions that were asked, answered or not.
    var asked: [QuestionKind] = []
    /// Whether a question was answered with an error, or forfeited.
    var lacksConsent = false
    /// Whether a write was granted in it, so that contents may differ from what the presenter was told (P23).
    var isEntered = false
    /// Whether nothing more is asked in it (P7).
    var hasForfeited = false
    /// The question about a deletion that has happened already.
    var lossQuestion: QuestionID?
    /// The last change of the item, and its deletion (N9).
    var changed: Cause?
    var deleted: Cause?
    /// Moves of the item, and of directories above it, that were not taken back, in order (N11).
    var moves: [OwnMove] = []
    /// The events at the names below the item (N8).
    var nameEvents = NameEventLog()
    /// The moment of its end; nil while it has members or an open question.
    var end: Instant?

    /// Whether a reacquire is owed (N3).
    var isRelinquished: Bool { asked.contains { $0.request.isRelinquishment } }
    var moved: Cause? { moves.last?.cause }
    var hasItemEvents: Bool { changed != nil || moved != nil || deleted != nil }
    var hasUnreported: Bool { isRelinquished || hasItemEvents || nameEvents.hasUnreported }
    /// N10: Whether names have changed, as they do in a save of several steps.
    var hasSteps: Bool { moved != nil || deleted != nil || nameEvents.hasSteps }
    /// Whether it continues after a write was granted in it (P23).
    var isBeingWritten: Bool { isWrite && isEntered && end == nil }
    var isSettled: Bool { question == nil && pendingQuestions.isEmpty }
    /// Whether it continues though no claim waits for an answer (P2).
    var asksAboutLoss: Bool {
        pendingQuestions.contains { $0.loss != nil } || (question != nil && question == lossQuestion)
    }
}

/// A move that gave the presented item another name (N2).
struct OwnMove: Sendable {
    /// The item itself, or a directory above it.
    let item: ItemID
    /// The name before the session.
    let former: Place
    let cause: Cause
}

/// A question that a presenter may be asked in a session.
struct QuestionKind: Hashable, Sendable {
    let request: PresenterRequest
    /// The item below it that is to be deleted.
    var subitem: ItemID?
}

/// A question that is still to be asked in a session, with its cause.
struct PendingQuestion: Sendable {
    let questionKind: QuestionKind
    var cause: Cause
    /// The claims that wait for the answer.
    var claims: [ClaimID] = []
    /// The deletion that has happened already, which is asked about even if no claim waits (P2).
    var loss: Cause?
}

extension AccessSession {
    /// Whether a question was asked or is about to be.
    func includes(_ questionKind: QuestionKind) -> Bool {
        asked.contains(questionKind) || pendingQuestions.contains { $0.questionKind == questionKind }
    }

    /// P3: Adds a question unless it was asked. P22: relinquishing to a writer includes readers.
    mutating func enqueue(_ questionKind: QuestionKind, _ cause: Cause, by claim: ClaimID) {
        // P7.
        if hasForfeited { return }
        let hasLetWritersIn = includes(QuestionKind(request: .relinquishToWriter))
        if asked.contains(questionKind) || (questionKind.request == .relinquishToReader && hasLetWritersIn) {
            return
        }
        if let place = pendingQuestions.firstIndex(where: { $0.questionKind == questionKind }) {
            pendingQuestions[place].claims.append(claim)
        } else {
            let pendingQuestion = PendingQuestion(questionKind: questionKind, cause: cause, claims: [claim])
            // Relinquishing comes first.
            let place = questionKind.request.isRelinquishment ? 0 : pendingQuestions.count
            pendingQuestions.insert(pendingQuestion, at: place)
        }
    }

    /// P2: Asks about a deletion that has happened, or waits for the open question about it; returns whether it does.
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

    /// N11: Notes a move; a move back to the former name cancels one that was not told.
    mutating func noteMove(of item: ItemID, _ move: Move, _ cause: Cause) {
        let former = moves.first { $0.item == item }?.former
        moves.removeAll { $0.item == item }
        if former == move.to { return }
        moves.append(OwnMove(item: item, former: former ?? move.from, cause: cause))
    }

    /// N5: Discards the events that were told: all but held back deletions.
    mutating func discardReportedEvents(but heldBack: Set<NameKey>) {
        discardItemEvents()
        nameEvents.discardReported(heldBack: heldBack)
    }

    /// N3: Discards the events of the item that were told: all but its deletion.
    mutating func discardItemEvents() { (moves, changed) = ([], nil) }

    /// N8: Discards all events, which were told.
    mutating func discardAllEvents() {
        discardReportedEvents(but: [])
        deleted = nil
    }

    /// Notes an access that belongs to the session.
    mutating func noteAccess(_ cause: Cause) {
        // The first purpose makes the session its own: it shares no relinquishment with others.
        if party.purpose == nil, cause.party.purpose != nil { party = cause.party }
        self.cause = cause
    }

    /// Continues the session after its question was answered or forfeited.
    mutating func closeQuestion(lacksConsent isRefused: Bool) {
        question = nil
        if isRefused { lacksConsent = true }
    }

    /// P7: Gives up all questions that were not asked yet.
    mutating func forfeitPendingQuestions() { (pendingQuestions, hasForfeited) = ([], true) }

    /// Notes that a question was asked.
    mutating func take(_ question: QuestionID, _ questionKind: QuestionKind, asksAboutLoss: Bool) {
        asked.append(questionKind)
        self.question = question
        if asksAboutLoss { lossQuestion = question }
    }

    /// P3: Removes the questions that only one claim wanted.
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
