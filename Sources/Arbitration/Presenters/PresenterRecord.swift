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
    var accessSessions: [AccessSessionID] = []
    /// What it has not answered yet, oldest first.
    var questions: [QuestionID] = []
    /// Requests in a row that it let go unanswered.
    var forfeits = 0
    /// Processes that one forfeit answers for, and until when (P7).
    var excused: [ProcessID: Instant] = [:]
    /// What was written without asking it since it answered last, or wrote that itself (P12).
    var unaskedWrites: Set<ItemID> = []
    /// It cannot be told that another program has written what it shows, and it has not read or written that since (P24).
    var isOutdated = false
    /// Since when it is told of no names below what it shows; nil if it is told (N14).
    var pause: Suppression?
    /// Since when it is neither asked nor told of what it shows (N15).
    var mute: Suppression?
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
    /// P24: whether it implements anything by which it hears that what it shows was written.
    var hearsOfChanges: Bool { !presenter.messages.isDisjoint(with: [.didChange, .subitemDidChange]) }
    /// Whether it is asked anything on account of a write, and so may have work unsaved (N15).
    var answersWriters: Bool {
        !presenter.messages.isDisjoint(
            with: [.relinquishToWriter, .save, .accommodateDeletion, .accommodateSubitemDeletion])
    }
    /// P8.
    var isDemoted: Bool { forfeits >= Self.demotingForfeits }
    /// P8, N15: whether it is not asked.
    var isLeftAlone: Bool { isDemoted || mute != nil }

    /// So many items are remembered to have been passed over; then all are forgotten, and kept once more.
    static let mostUnaskedWrites = 4096

    mutating func noteUnaskedWrite(_ item: ItemID) {
        if unaskedWrites.count >= Self.mostUnaskedWrites { unaskedWrites = [] }
        unaskedWrites.insert(item)
    }

    /// How many forfeits in a row demote a presenter.
    static let demotingForfeits = 3
}

/// Whom a claim has asked and tells.
struct Consultation: Sendable {
    var accessSessions: [AccessSessionID] = []
    /// Which of the turns was found to wait for an answer last; those before it did not wait then.
    var awaited = 0
    /// Presenters whose own save this is (P6).
    var ownPresenters: [PresenterID] = []
    /// Presenters that it need not ask because of P7 or P8.
    var skippedPresenters: [PresenterID] = []
    /// Presenters that were listed when it was granted (P12).
    var overriddenPresenters: [PresenterID] = []
    /// What it writes without asking those it would have to ask (P12).
    var unaskedWrites: [(presenter: PresenterID, item: ItemID)] = []
}
