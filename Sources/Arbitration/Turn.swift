// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What one program does with a presented item, as its presenter hears of it.
///
///     open (has members) ──last member leaves──▶ trailing ──`trailing` later──▶ ended
///           ▲                                       │
///           └──────────another access───────────────┘
struct Turn: Sendable {
    let id: TurnID
    let presenter: PresenterID
    let isWrite: Bool
    var party: Party
    let began: Instant
    var cause: Cause
    /// Claims of the party that wait for answers, or are held and not suspended.
    var members: [ClaimID] = []
    /// Still to be asked, in this order.
    var wanted: [Want] = []
    /// What is not answered yet; maybe asked in another turn (P9).
    var question: QuestionID?
    /// What was asked, whatever came of it.
    var asked: [Demand] = []
    /// A request was answered with an error, or forfeited.
    var isUnanswered = false
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
    var news = NameLedger()
    /// When it ends; nil while it has members or somebody owes it an answer.
    var end: Instant?

    /// Whether a reacquire is owed (N3).
    var isRelinquished: Bool { asked.contains { $0.request.isRelinquishment } }
    var moved: Cause? { moves.last?.cause }
    var hasOwnNews: Bool { changed != nil || moved != nil || deleted != nil }
    var hasAnythingToSay: Bool { isRelinquished || hasOwnNews || news.hasAnythingToSay }
    /// N10: whether names have changed, as they do in a save of several steps.
    var hasSteps: Bool { moved != nil || deleted != nil || news.hasSteps }
    /// Whether it goes on after a write was granted in it (P23).
    var isBeingWritten: Bool { isWrite && isEntered && end == nil }
    var isSettled: Bool { question == nil && wanted.isEmpty }
    /// Whether it goes on though nobody waits for an answer (P2).
    var isAboutLoss: Bool {
        wanted.contains { $0.loss != nil } || (question != nil && question == lossQuestion)
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
struct Demand: Hashable, Sendable {
    let request: PresenterRequest
    /// What is to be deleted below it.
    var subitem: ItemID?
}

/// What is still to be asked in a turn, and on whose account.
struct Want: Sendable {
    let demand: Demand
    var cause: Cause
    /// Who waits for it.
    var claims: [ClaimID] = []
    /// What has happened already and is put to the presenter whoever waits (P2).
    var loss: Cause?
}

extension Turn {
    /// Whether a request was made or is about to be.
    func wants(_ demand: Demand) -> Bool {
        asked.contains(demand) || wanted.contains { $0.demand == demand }
    }

    /// P3: asks nothing again. P22: who has relinquished to a writer has to a reader.
    mutating func want(_ demand: Demand, _ cause: Cause, by claim: ClaimID) {
        // P7.
        if hasForfeited { return }
        let hasLetWritersIn = wants(Demand(request: .relinquishToWriter))
        if asked.contains(demand) || (demand.request == .relinquishToReader && hasLetWritersIn) { return }
        if let place = wanted.firstIndex(where: { $0.demand == demand }) {
            wanted[place].claims.append(claim)
        } else {
            let want = Want(demand: demand, cause: cause, claims: [claim])
            // Relinquishing comes first.
            let place = demand.request.isRelinquishment ? 0 : wanted.count
            wanted.insert(want, at: place)
        }
    }

    /// P2: asks about what has happened already, or waits for the answer if that is being asked; returns whether it does.
    mutating func wantForLoss(_ demand: Demand, _ cause: Cause, isOpen: (QuestionID) -> Bool) -> Bool {
        if hasForfeited { return false }
        if asked.contains(demand) {
            guard let question, isOpen(question) else { return false }
            lossQuestion = question
            return true
        }
        if let place = wanted.firstIndex(where: { $0.demand == demand }) {
            wanted[place].loss = cause
        } else {
            wanted.append(Want(demand: demand, cause: cause, loss: cause))
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
    mutating func forgetNews(but heldBack: Set<Name>) {
        forgetOwnNews()
        news.settle(heldBack: heldBack)
    }

    /// N3: what happened to the item was told, but not its deletion.
    mutating func forgetOwnNews() { (moves, changed) = ([], nil) }

    /// N8: all was told.
    mutating func forgetAll() {
        forgetNews(but: [])
        deleted = nil
    }

    /// A question is asked.
    mutating func take(_ question: QuestionID, _ demand: Demand, isAboutLoss: Bool) {
        asked.append(demand)
        self.question = question
        if isAboutLoss { lossQuestion = question }
    }

    /// P3: what was wanted for one claim alone is not asked any more.
    mutating func stopAsking(for claim: ClaimID) {
        wanted = wanted.compactMap { want in
            guard want.claims.contains(claim) else { return want }
            var want = want
            want.claims.removeAll { $0 == claim }
            if !want.claims.isEmpty { return want }
            return want.loss.map { Want(demand: want.demand, cause: $0, loss: $0) }
        }
    }
}
