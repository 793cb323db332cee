// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A claim that waits or is held.
package struct NaiveClaim: Sendable {
    package let request: ClaimRequest
    package internal(set) var parts: [ClaimRequest.Part]
    /// X6, Y10: whether the program only appends to the file, or locks it.
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
    /// Y9: the moment at which readers may go ahead of a writer that has changed nothing until then.
    var unchangedGrace = Instant(nanoseconds: 0)
    var seen: Observation?
    var lastChange = Instant(nanoseconds: 0)
    /// D3: whether the claim goes before other waiting claims, to end a deadlock.
    var overtakes = false
    /// D1: whether the program has closed the claim's handle.
    var isClosed = false
    /// Whether the arbiter has chosen the presenters that the claim must ask.
    var hasConsulted = false
    /// The locks that the claim requires. They are computed after each step.
    var requiredLocks: [NaiveLock] = []
    /// Whether the current event has made the claim.
    ///
    /// The next property, `entered`, contains the directories on which the claim's read lock counts (S4).
    var isNew = true
    var entered: Set<ItemID> = []
    var accessSessions: [AccessSessionID] = []
    /// P6: the presenters that treat the claim's changes as their own changes.
    var ownOf: [PresenterID] = []
    /// P7, P8: the presenters that the claim need not ask, because they forfeited questions before.
    var skippedPresenters: [PresenterID] = []
    /// P12: the presenters that the claim's grant listed, because they did not agree.
    var overriddenPresenters: [PresenterID] = []
    /// P12: the items that the claim writes without a question, each with its presenter. This presenter forfeited questions
    /// before (P7, P8).
    var unaskedWritesOfClaim: [(PresenterID, ItemID)] = []
    var pendingQuestions: [NaivePendingQuestion] = []
    /// N4: the stamp of the claim's last change that was reported to presenters.
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

/// The kind of a question to a presenter: the request, and the item inside the presented directory that it is about, if any.
struct NaiveQuestionKind: Hashable, Sendable {
    let request: PresenterRequest
    let subitem: ItemID?
}

/// A question that a claim needs in one of its access sessions, and that was not sent to the presenter yet.
struct NaivePendingQuestion: Hashable, Sendable {
    let accessSession: AccessSessionID
    let ask: NaiveQuestionKind
    let cause: Cause
    /// P9: whether the question is for a read by a program that does not use the socket.
    let isForUnmodifiedRead: Bool
}

/// A presenter that a program has registered, with all facts about it that the rules use.
package struct NaivePresenter: Sendable {
    package let presenter: Presenter
    package internal(set) var item: ItemID?
    package internal(set) var place: Place
    var forfeits = 0
    /// P7: the processes that caused a forfeited question, each with the time of its last access that concerned the presenter.
    var excused: [ProcessID: Instant] = [:]
    /// P9: the time of the last question to save, for each POSIX session.
    var saveAsked: [Int32: Instant] = [:]
    var lastAskedToSave: Instant?
    var lastSaved: Instant?
    /// P12: the marked items: another program wrote them without the presenter's consent.
    var unaskedWrites: Set<ItemID> = []
    /// P24: whether another program has written the presented item, and the presenter implements no notice of this.
    var isOutdated = false
    /// N14: whether the presenter gets no notices of names below the directory that it shows.
    var isPaused = false
    var hasMissed = false
    /// N15: whether the presenter gets no questions, and no notices of the item that it shows.
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
    /// P8: whether the presenter is not asked any more, because it forfeited three questions in a row.
    var isDemoted: Bool { forfeits >= 3 }

    /// N15: whether the presenter implements any question but `relinquishToReader`, so that a write would ask it.
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

    /// P5: whether an access of the party is treated as the presenter's own.
    func isOwn(_ party: Party) -> Bool {
        if let purpose = party.purpose { return purpose == self.party.purpose }
        return party.isSameProcess(as: self.party)
    }

    /// P6: whether the party works for the presenter.
    func isWorkedForBy(_ party: Party) -> Bool { party.works(for: self.party) }

    /// P5: whether the presenter is not asked about accesses of the party.
    ///
    /// The presenter is asked about aware accesses of its own process with another purpose.
    func isSpared(_ party: Party) -> Bool {
        if isOwn(party) { return true }
        let isAwareSelf = party.purpose != nil && party.isSameProcess(as: self.party)
        return isWorkedForBy(party) && !isAwareSelf
    }
}

/// The accesses of one program, as one presenter is told of them.
package struct NaiveAccessSession: Sendable {
    package let id: AccessSessionID
    package let presenter: PresenterID
    var program: Party
    let isWriting: Bool
    let began: Instant
    /// The cause of the last access or change in the access session.
    var cause: Cause
    var asked: [NaiveQuestionKind] = []
    /// P3: for each question, the cause of the access that needed it first.
    var causes: [NaiveQuestionKind: Cause] = [:]
    /// The access session's questions, in the order in which a claim needed each for the first time.
    var order: [NaiveQuestionKind] = []
    /// P9: the questions to save that another access session asked, and for which this session waits.
    var awaited: [QuestionID] = []
    /// P2: questions about deletions that have already happened (`lost`). No claim waits for the answers.
    var owed: [NaivePendingQuestion] = []
    var isForfeited = false
    var isRefused = false
    /// P23: whether a write was granted in the access session.
    var wasWritten = false
    var end: Instant?
    /// N11: the moved items with their former places.
    var moves: [(item: ItemID, former: Place, cause: Cause)] = []
    var changed: Cause?
    /// N9: the cause of the item's deletion; nil if the item exists.
    var gone: Cause?
    /// The events at names below the item.
    ///
    /// `known` holds the names that the access session already knew. `movedTo` is the target of the last move.
    var nameEvents: [NaiveNameEvent] = []
    var known: [NaiveNameState] = []
    var movedTo: NaiveName?

    var moved: Cause? { moves.last?.cause }
    var hasAskedToRelinquish: Bool { asked.contains { $0.request.isRelinquishment } }
    var hasItemEvents: Bool { moved != nil || changed != nil || gone != nil }
    /// Whether the access session has a notice to send. The presenter gets a notice only if it implements this kind of notice.
    var hasUnreported: Bool {
        hasAskedToRelinquish || hasItemEvents || outcomes.all.contains { !$0.isTold }
    }
}
