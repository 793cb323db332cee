// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What is known of a presenter.
struct PresenterRecord: Sendable {
    let presenter: Presenter
    /// Follows the document (P11).
    var item: ItemID
    /// Oldest first.
    var turns: [TurnID] = []
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
        item = presenter.item ?? ItemID(.max)
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
    let party: Party
    let began: Instant
    var cause: Cause
    /// Claims of the party that wait for answers, or are held and not suspended.
    var members: [ClaimID] = []
    /// Still to be asked, in this order.
    var wanted: [PresenterRequest] = []
    /// What is not answered yet; maybe asked in another turn (P9).
    var question: QuestionID?
    /// What was asked, whatever came of it.
    var asked: [PresenterRequest] = []
    /// A request was answered with an error, or forfeited.
    var isUnanswered = false
    /// A deletion is put to the presenter when it has happened.
    var isLost = false
    var hasChanged = false
    var hasMoved = false
    /// When it ends; nil while it has members or somebody owes it an answer.
    var end: Instant?

    /// Whether a reacquire is owed (N3).
    var isRelinquished: Bool { asked.contains(.relinquishToReader) || asked.contains(.relinquishToWriter) }
    var hasAnythingToSay: Bool { isRelinquished || hasChanged || hasMoved }
    var isSettled: Bool { question == nil && wanted.isEmpty }
}

/// Whom a claim has asked and tells.
struct Inquiry: Sendable {
    var turns: [TurnID] = []
    /// Presenters whose own save this is (P6).
    var silent: [PresenterID] = []
}
