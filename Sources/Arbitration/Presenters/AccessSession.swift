// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What one program does with a presented item, as its presenter hears of it.
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
    /// Still to be asked, in this order.
    var pendingQuestions: [PendingQuestion] = []
    /// What is not answered yet; maybe asked in another turn (P9).
    var question: QuestionID?
    /// What was asked, whatever came of it.
    var asked: [QuestionKind] = []
    /// A request was answered with an error, or forfeited.
    var lacksConsent = false
    /// A write was granted in it: what that writes may be more than the presenter was told of (P23).
    var isEntered = false
    /// Nothing more is asked in it (P7).
    var hasForfeited = false
    /// Asks about a deletion that has happened already.
    var lossQuestion: QuestionID?
    /// The last change of the item, and its deletion (N9).
    var changed: Cause?
    var deleted: Cause?
    /// Moves of the item, and of directories above it, that were not taken back; the last one last (N11).
    var moves: [OwnMove] = []
    /// What happened at the names below it (N8).
    var nameEvents = NameEventLog()
    /// When it ends; nil while it has members or somebody owes it an answer.
    var end: Instant?

    /// Whether a reacquire is owed (N3).
    var isRelinquished: Bool { asked.contains { $0.request.isRelinquishment } }
    var moved: Cause? { moves.last?.cause }
    var hasItemEvents: Bool { changed != nil || moved != nil || deleted != nil }
    var hasUnreported: Bool { isRelinquished || hasItemEvents || nameEvents.hasUnreported }
    /// N10: whether names have changed, as they do in a save of several steps.
    var hasSteps: Bool { moved != nil || deleted != nil || nameEvents.hasSteps }
    /// Whether it goes on after a write was granted in it (P23).
    var isBeingWritten: Bool { isWrite && isEntered && end == nil }
    var isSettled: Bool { question == nil && pendingQuestions.isEmpty }
    /// Whether it goes on though nobody waits for an answer (P2).
    var asksAboutLoss: Bool {
        pendingQuestions.contains { $0.loss != nil } || (question != nil && question == lossQuestion)
    }
}

/// How what is presented came to have another name (N2).
struct OwnMove: Sendable {
    /// It, or a directory above it.
    let item: ItemID
    /// What it was called before the turn.
    let former: Place
    let cause: Cause
}

/// What a presenter is to be asked in a turn.
struct QuestionKind: Hashable, Sendable {
    let request: PresenterRequest
    /// What is to be deleted below it.
    var subitem: ItemID?
}

/// What is still to be asked in a turn, and on whose account.
struct PendingQuestion: Sendable {
    let questionKind: QuestionKind
    var cause: Cause
    /// Who waits for it.
    var claims: [ClaimID] = []
    /// What has happened already and is put to the presenter whoever waits (P2).
    var loss: Cause?
}

extension AccessSession {
    /// Whether a request was made or is about to be.
    func includes(_ questionKind: QuestionKind) -> Bool {
        asked.contains(questionKind) || pendingQuestions.contains { $0.questionKind == questionKind }
    }

    /// P3: asks nothing again. P22: who has relinquished to a writer has to a reader.
    mutating func pendingQuestion(_ questionKind: QuestionKind, _ cause: Cause, by claim: ClaimID) {
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

    /// P2: asks about what has happened already, or waits for the answer if that is being asked; returns whether it does.
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

    /// N11: what comes back to its former name was not moved, unless that was told.
    mutating func noteMove(of item: ItemID, _ move: Move, _ cause: Cause) {
        let former = moves.first { $0.item == item }?.former
        moves.removeAll { $0.item == item }
        if former == move.to { return }
        moves.append(OwnMove(item: item, former: former ?? move.from, cause: cause))
    }

    /// N5: it was told, but for what was deleted.
    mutating func discardReportedEvents(but heldBack: Set<NameKey>) {
        discardItemEvents()
        nameEvents.discardReported(heldBack: heldBack)
    }

    /// N3: what happened to the item was told, but not its deletion.
    mutating func discardItemEvents() { (moves, changed) = ([], nil) }

    /// N8: all was told.
    mutating func discardAllEvents() {
        discardReportedEvents(but: [])
        deleted = nil
    }

    /// A question is asked.
    mutating func take(_ question: QuestionID, _ questionKind: QuestionKind, asksAboutLoss: Bool) {
        asked.append(questionKind)
        self.question = question
        if asksAboutLoss { lossQuestion = question }
    }

    /// P3: what was wanted for one claim alone is not asked any more.
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
