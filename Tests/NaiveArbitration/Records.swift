// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// One live claim.
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
    /// What it stakes, found out anew after each step.
    var requiredLocks: [NaiveLock] = []
    /// Whether it comes with the step at hand; and the directories whose contents it stakes to read (S4).
    var isNew = true
    var entered: Set<ItemID> = []
    var accessSessions: [AccessSessionID] = []
    /// P6: the presenters whose own what it writes is.
    var ownOf: [PresenterID] = []
    /// P7, P8: whom it need not ask.
    var skippedPresenters: [PresenterID] = []
    /// P12: whom it listed when it was granted.
    var overriddenPresenters: [PresenterID] = []
    /// P12: what it writes without asking those it would have asked but for P7 and P8.
    var unaskedWritesOfClaim: [(PresenterID, ItemID)] = []
    var pendingQuestions: [NaivePendingQuestion] = []
    /// The stamp up to which its changes were told when it was suspended (N4).
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

/// One thing to ask a presenter.
struct NaiveQuestionKind: Hashable, Sendable {
    let request: PresenterRequest
    let subitem: ItemID?
}

/// What a claim wants to be asked in one of its turns.
struct NaivePendingQuestion: Hashable, Sendable {
    let accessSession: AccessSessionID
    let ask: NaiveQuestionKind
    let cause: Cause
    /// P9.
    let isForUnmodifiedRead: Bool
}

/// One registration.
package struct NaivePresenter: Sendable {
    package let presenter: Presenter
    package internal(set) var item: ItemID?
    package internal(set) var place: Place
    var forfeits = 0
    /// P7: the last access of each process that forfeited.
    var excused: [ProcessID: Instant] = [:]
    /// P9: when it was last asked to save, by session.
    var saveAsked: [Int32: Instant] = [:]
    var lastAskedToSave: Instant?
    var lastSaved: Instant?
    /// P12.
    var unaskedWrites: Set<ItemID> = []
    /// P24: another program has written what it shows, and it cannot have heard of that.
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

    /// P5: aware accesses of its own process with another purpose are put to it.
    func isSpared(_ party: Party) -> Bool {
        if isOwn(party) { return true }
        let isAwareSelf = party.purpose != nil && party.isSameProcess(as: self.party)
        return isWorkedForBy(party) && !isAwareSelf
    }
}

/// What one program does, as one presenter hears of it.
package struct NaiveAccessSession: Sendable {
    package let id: AccessSessionID
    package let presenter: PresenterID
    var program: Party
    let isWriting: Bool
    let began: Instant
    /// The last access or change in it.
    var cause: Cause
    var asked: [NaiveQuestionKind] = []
    /// P3: who wanted it first.
    var causes: [NaiveQuestionKind: Cause] = [:]
    /// In the order in which they were first wanted.
    var order: [NaiveQuestionKind] = []
    /// Saves that other turns asked for (P9).
    var awaited: [QuestionID] = []
    /// What is to be asked though no claim waits for it (P2, `lost`).
    var owed: [NaivePendingQuestion] = []
    var isForfeited = false
    var isRefused = false
    /// P23: whether a write was granted in it.
    var wasWritten = false
    var end: Instant?
    /// N11: what was moved, and from where.
    var moves: [(item: ItemID, former: Place, cause: Cause)] = []
    var changed: Cause?
    /// N9: the item is gone.
    var gone: Cause?
    /// What happened below it; and the names that were known before, and where something was moved to last.
    var nameEvents: [NaiveNameEvent] = []
    var known: [NaiveNameState] = []
    var movedTo: NaiveName?

    var moved: Cause? { moves.last?.cause }
    var hasAskedToRelinquish: Bool { asked.contains { $0.request.isRelinquishment } }
    var hasItemEvents: Bool { moved != nil || changed != nil || gone != nil }
    /// Whether it would be told, if the presenter implements it.
    var hasUnreported: Bool {
        hasAskedToRelinquish || hasItemEvents || outcomes.all.contains { !$0.isTold }
    }
}
