// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What is known of a presenter.
struct PresenterRecord: Sendable {
    let presenter: Presenter
    /// Follows the document (P11); nil as long as there is none (P21).
    var item: ItemID?
    /// Where it is, and by which name it is shown.
    var place: Place
    /// Oldest first.
    var turns: [TurnID] = []
    /// What it has not answered yet, oldest first.
    var questions: [QuestionID] = []
    /// Requests in a row that it let go unanswered.
    var forfeits = 0
    /// Processes that one forfeit answers for, and until when (P7).
    var excused: [ProcessID: Instant] = [:]
    /// When it was asked to save last.
    var saveAsked: Instant?
    /// When it was asked to save on behalf of each session, as long as that matters (P9).
    var savesAsked: [Int32: Instant] = [:]
    /// When it last wrote the item on request.
    var saved: Instant?

    init(_ presenter: Presenter) {
        self.presenter = presenter
        place = presenter.place
    }

    var id: PresenterID { presenter.id }
    /// P8.
    var isDemoted: Bool { forfeits >= Self.demotingForfeits }

    /// How many forfeits in a row demote a presenter.
    static let demotingForfeits = 3
}

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
    /// Nothing more is asked in it (P7).
    var hasForfeited = false
    /// Asks about a deletion that has happened already.
    var lossQuestion: QuestionID?
    /// The last change of the item, the last move, and its deletion (N9).
    var changed: Cause?
    var moved: Cause?
    var deleted: Cause?
    /// What happened to items below it, in the order in which they first were heard of (N8).
    var news: [SubitemNews] = []
    /// When it ends; nil while it has members or somebody owes it an answer.
    var end: Instant?

    /// Whether a reacquire is owed (N3).
    var isRelinquished: Bool { asked.contains { $0.request.isRelinquishment } }
    var hasAnythingToSay: Bool {
        isRelinquished || changed != nil || moved != nil || deleted != nil || !news.isEmpty
    }
    var isSettled: Bool { question == nil && wanted.isEmpty }
    /// Whether it goes on though nobody waits for an answer (P2).
    var isAboutLoss: Bool {
        wanted.contains { $0.loss != nil } || (question != nil && question == lossQuestion)
    }
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

/// Whom a claim has asked and tells.
struct Inquiry: Sendable {
    var turns: [TurnID] = []
    /// Presenters whose own save this is (P6).
    var silent: [PresenterID] = []
}
