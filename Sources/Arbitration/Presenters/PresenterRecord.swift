// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The state of a presenter.
struct PresenterRecord: Sendable {
    let presenter: Presenter
    /// The presented item, which follows the document (P11); nil as long as there is none (P21).
    var item: ItemID?
    /// The directory and the name of the item as presented.
    var place: Place
    /// Its access sessions, the oldest first.
    var accessSessions: [AccessSessionID] = []
    /// Its open questions, the oldest first.
    var questions: [QuestionID] = []
    /// The number of successive questions that it forfeited.
    var forfeits = 0
    /// Processes that need not wait after a forfeit, and until when (P7).
    var excused: [ProcessID: Instant] = [:]
    /// Items written without its consent since it last answered or wrote them itself (P12).
    var unaskedWrites: Set<ItemID> = []
    /// Whether another program wrote its item, it cannot be told, and it has not read or written the item since (P24).
    var isOutdated = false
    /// Since when it is not told of names below its item; nil if it is told (N14).
    var pause: Suppression?
    /// Since when it is neither asked nor told about its item; nil if it is (N15).
    var mute: Suppression?
    /// When it was last asked to save.
    var saveAsked: Instant?
    /// When it was asked to save for each POSIX session, as long as that matters (P9).
    var savesAsked: [Int32: Instant] = [:]
    /// When it last saved on request.
    var saved: Instant?

    init(_ presenter: Presenter) {
        self.presenter = presenter
        place = presenter.place
    }

    var id: PresenterID { presenter.id }
    /// P24: Whether it implements any notice of changes of its item.
    var hearsOfChanges: Bool { !presenter.messages.isDisjoint(with: [.didChange, .subitemDidChange]) }
    /// Whether a write may cause a question to it, so that it may have unsaved work (N15).
    var answersWriters: Bool {
        !presenter.messages.isDisjoint(
            with: [.relinquishToWriter, .save, .accommodateDeletion, .accommodateSubitemDeletion])
    }
    /// P8.
    var isDemoted: Bool { forfeits >= Self.demotingForfeits }
    /// P8, N15: Whether it is not asked.
    var isLeftAlone: Bool { isDemoted || mute != nil }

    /// The largest number of items in `unaskedWrites`.
    ///
    /// Beyond it all are forgotten, so their contents may be preserved once more.
    static let mostUnaskedWrites = 4096

    mutating func noteUnaskedWrite(_ item: ItemID) {
        if unaskedWrites.count >= Self.mostUnaskedWrites { unaskedWrites = [] }
        unaskedWrites.insert(item)
    }

    /// The number of successive forfeits that demote a presenter.
    static let demotingForfeits = 3
}

/// The presenters that a claim asks and tells.
struct Consultation: Sendable {
    var accessSessions: [AccessSessionID] = []
    /// The index of the session found last to wait for an answer; those before it did not wait then.
    var awaited = 0
    /// Presenters that make this save themselves (P6).
    var ownPresenters: [PresenterID] = []
    /// Presenters that it need not ask because of P7 or P8.
    var skippedPresenters: [PresenterID] = []
    /// Presenters that the grant listed as unanswered (P12).
    var overriddenPresenters: [PresenterID] = []
    /// Its writes without a question to presenters that would otherwise have to be asked (P12).
    var unaskedWrites: [(presenter: PresenterID, item: ItemID)] = []
}
