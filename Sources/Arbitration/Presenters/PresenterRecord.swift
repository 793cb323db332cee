// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The state of one presenter.
struct PresenterRecord: Sendable {
    let presenter: Presenter
    /// The presented item; nil while the item does not exist (P21). The item stays the same when a save replaces the
    /// document's file (P11).
    var item: ItemID?
    /// The directory and the name under which the presenter shows the item.
    var place: Place
    /// The access sessions of the presenter, the oldest first.
    var accessSessions: [AccessSessionID] = []
    /// The questions that the presenter has not answered, the oldest first.
    var questions: [QuestionID] = []
    /// The number of questions in a row that the presenter forfeited.
    var forfeits = 0
    /// P7: Processes for which this presenter has forfeited a question. Until the stored moment, the process does not
    /// wait for this presenter.
    var excused: [ProcessID: Instant] = [:]
    /// P12: Items that were written without the presenter's consent, since it last answered a question or wrote the
    /// item itself.
    var unaskedWrites: Set<ItemID> = []
    /// P24: Whether the presenter does not know the present contents: another program has written the item, and the
    /// presenter implements no notice of changes.
    var isOutdated = false
    /// N14: The pause in which the presenter receives no notices about names below its directory; nil if it is not
    /// paused.
    var pause: Suppression?
    /// N15: The time in which the presenter receives no questions and no notices about its item; nil if it is not
    /// muted.
    var mute: Suppression?
    /// The moment at which the presenter was last asked to save.
    var saveAsked: Instant?
    /// P9: For each POSIX session, the moment at which a reader of this session last caused a question to save. Old
    /// entries are removed.
    var savesAsked: [Int32: Instant] = [:]
    /// The moment at which the presenter last saved because it was asked to save.
    var saved: Instant?

    init(_ presenter: Presenter) {
        self.presenter = presenter
        place = presenter.place
    }

    var id: PresenterID { presenter.id }
    /// P24: Whether the presenter implements any notice of changes of its item.
    var hearsOfChanges: Bool { !presenter.messages.isDisjoint(with: [.didChange, .subitemDidChange]) }
    /// N15: Whether the presenter implements any question that a write causes. If so, it may have unsaved work.
    var answersWriters: Bool {
        !presenter.messages.isDisjoint(
            with: [.relinquishToWriter, .save, .accommodateDeletion, .accommodateSubitemDeletion])
    }
    /// P8: Whether the presenter has forfeited so many questions in a row that it is not asked any more.
    var isDemoted: Bool { forfeits >= Self.demotingForfeits }
    /// P8, N15: Whether the presenter is not asked, because it has forfeited too many questions in a row or is muted.
    var isLeftAlone: Bool { isDemoted || mute != nil }

    /// The largest number of items in `unaskedWrites`.
    ///
    /// If there would be more, the list is emptied. Later writes of these items can then preserve contents a second
    /// time.
    static let mostUnaskedWrites = 4096

    mutating func noteUnaskedWrite(_ item: ItemID) {
        if unaskedWrites.count >= Self.mostUnaskedWrites { unaskedWrites = [] }
        unaskedWrites.insert(item)
    }

    /// After this number of forfeited questions in a row, a presenter is not asked any more.
    static let demotingForfeits = 3
}

/// Which presenters were asked for a claim, and which presenters were not.
struct Consultation: Sendable {
    var accessSessions: [AccessSessionID] = []
    /// The index of the access session that was last found to wait for an answer. The next search begins at this
    /// session.
    var awaited = 0
    /// P6: Presenters for which this claim is their own access, for example because the presenters save by this claim.
    var ownPresenters: [PresenterID] = []
    /// Presenters that the claim did not ask, because they forfeited earlier questions (P7, P8).
    var skippedPresenters: [PresenterID] = []
    /// P12: Presenters that the grant lists because they have not consented.
    var overriddenPresenters: [PresenterID] = []
    /// P12: Items that the claim writes, each with a presenter that was not asked because of P7, P8 or N15.
    var unaskedWrites: [(presenter: PresenterID, item: ItemID)] = []
}
