// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A live claim.
package struct NaiveClaim: Sendable {
    package let request: ClaimRequest
    package internal(set) var parts: [ClaimRequest.Part]
    /// X6, Y10.
    var accessPattern: ClaimRequest.AccessPattern
    package internal(set) var isHeld = false
    package internal(set) var party: Party?
    package internal(set) var suspension: Suspension?
    package internal(set) var contendedSince: Instant?
    var isAskedWho = false
    var isClean = false
    let arrival: Instant
    var deadline: Instant
    var nextObservation: Instant?
    /// Y9.
    var unchangedGrace = Instant(nanoseconds: 0)
    var seen: Observation?
    var lastChange = Instant(nanoseconds: 0)
    /// D3.
    var overtakes = false
    /// Whether its presenters were chosen.
    var hasConsulted = false
    /// Its required locks, recomputed after each step.
    var requiredLocks: [NaiveLock] = []
    /// Whether the current step made the claim.
    ///
    /// `entered` holds the directories with a read lock of the claim on their contents (S4).
    var isNew = true
    var entered: Set<ItemID> = []
    var accessSessions: [AccessSessionID] = []
    /// P6: the presenters for which its changes are their own.
    var ownOf: [PresenterID] = []
    /// P7, P8: the presenters that it need not ask.
    var skippedPresenters: [PresenterID] = []
    /// P12: the presenters that its grant listed.
    var overriddenPresenters: [PresenterID] = []
    /// P12: the items that it writes without a question because of P7 and P8, with their presenters.
    var unaskedWritesOfClaim: [(PresenterID, ItemID)] = []
    var pendingQuestions: [NaivePendingQuestion] = []
    /// The stamp up to which its changes were told at its suspension (N4).
    var reportedStamp: UInt64?

    init(request: ClaimRequest, arrival: Instant, deadline: Instant) {
        self.request = request
        self.arrival = arrival
        parts = request.parts
        accessPattern = request.nature == .handle ? request.accessPattern : []
        self.deadline = deadline
    }

    package var id: ClaimID { request.claim }
    var nature: ClaimRequest.Nature { request.nature }
    var isOfSocket: Bool { nature == .aware || nature == .batch }
    var isFullySuspended: Bool { suspension != nil && suspension != .idle && suspension != .unchanged }
    var onlyReads: Bool { parts.allSatisfy { !$0.access.isWrite } }
}

/// The kind of a question to a presenter.
struct NaiveQuestionKind: Hashable, Sendable {
    let request: PresenterRequest
    let subitem: ItemID?
}

/// A question that a claim needs in one of its access sessions.
struct NaivePendingQuestion: Hashable, Sendable {
    let accessSession: AccessSessionID
    let ask: NaiveQuestionKind
    let cause: Cause
    /// P9.
    let isForUnmodifiedRead: Bool
}

/// A registration.
package struct NaivePresenter: Sendable {
    package let presenter: Presenter
    package internal(set) var item: ItemID?
    package internal(set) var place: Place
    var forfeits = 0
    /// P7: for each process with a forfeited question, the time of its last access that concerned the presenter.
    var excused: [ProcessID: Instant] = [:]
    /// P9: the time of the last question to save, by session.
    var saveAsked: [Int32: Instant] = [:]
    var lastAskedToSave: Instant?
    var lastSaved: Instant?
    /// P12.
    var unaskedWrites: Set<ItemID> = []
    /// P24: another program has written the presented item, and the presenter was not told.
    var isOutdated = false
    /// N14.
    var isPaused = false
    var hasMissed = false
    /// N15.
    var isMuted = false
    var hasMissedOwn = false
    var hasMissedMove = false

    init(presenter: Presenter) {
        self.presenter = presenter
        item = presenter.item
        place = presenter.place
    }

    package var id: PresenterID { presenter.id }
    var party: Party { presenter.party }
    /// P8.
    var isDemoted: Bool { forfeits >= 3 }

    /// N15.
    var answersWriters: Bool {
        let requests: [PresenterRequest] = [
            .relinquishToWriter, .save, .accommodateDeletion, .accommodateSubitemDeletion,
        ]
        return requests.contains { implements($0) }
    }

    func implements(_ request: PresenterRequest) -> Bool {
        presenter.messages.contains(PresenterMessages(request))
    }

    func implements(_ notice: PresenterNotice) -> Bool {
        presenter.messages.contains(PresenterMessages(notice))
    }

    /// P5.
    func isOwn(_ party: Party) -> Bool {
        if let purpose = party.purpose { return purpose == self.party.purpose }
        return party.isSameProcess(as: self.party)
    }

    /// P6.
    func isWorkedForBy(_ party: Party) -> Bool { party.works(for: self.party) }

    /// P5: aware accesses of the presenter's own process with another purpose are put to it.
    func isSpared(_ party: Party) -> Bool {
        if isOwn(party) { return true }
        let isAwareSelf = party.purpose != nil && party.isSameProcess(as: self.party)
        return isWorkedForBy(party) && !isAwareSelf
    }
}

/// The accesses of one program, as reported to one presenter.
package struct NaiveAccessSession: Sendable {
    package let id: AccessSessionID
    package let presenter: PresenterID
    var program: Party
    let isWriting: Bool
    let began: Instant
    /// The last access or change in the session.
    var cause: Cause
    var asked: [NaiveQuestionKind] = []
    /// P3: the cause that first wanted each question.
    var causes: [NaiveQuestionKind: Cause] = [:]
    /// In the order in which they were first wanted.
    var order: [NaiveQuestionKind] = []
    /// Saves that other sessions asked for (P9).
    var awaited: [QuestionID] = []
    /// Questions that no claim waits for (P2, `lost`).
    var owed: [NaivePendingQuestion] = []
    var isForfeited = false
    var isRefused = false
    /// P23: whether a write was granted in the session.
    var wasWritten = false
    var end: Instant?
    /// N11: the moved items and their former places.
    var moves: [(item: ItemID, former: Place, cause: Cause)] = []
    var changed: Cause?
    /// N9: the item is gone.
    var gone: Cause?
    /// Events below the item.
    ///
    /// `known` holds the names known before, and `movedTo` the target of the last move.
    var nameEvents: [NaiveNameEvent] = []
    var known: [NaiveNameState] = []
    var movedTo: NaiveName?

    var moved: Cause? { moves.last?.cause }
    var hasAskedToRelinquish: Bool { asked.contains { $0.request.isRelinquishment } }
    var hasItemEvents: Bool { moved != nil || changed != nil || gone != nil }
    /// Whether there is anything to tell, if the presenter implements it.
    var hasUnreported: Bool {
        hasAskedToRelinquish || hasItemEvents || outcomes.all.contains { !$0.isTold }
    }
}
