// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The state of a simulation, as it follows from the arbiter's events and effects.
///
/// Checkers read this model, and never the arbiter's own state. The model has no index and does not check anything.
struct WorldModel {
    struct ClaimModel {
        let request: ClaimRequest
        /// The parts of the claim, with the current places of their items.
        var parts: [ClaimRequest.Part]
        /// The locks that the parts require.
        var requiredLocks: [ModelLock] = []
        let arrived: Instant
        /// The number of the event that made the claim.
        let number: Int
        /// X6, Y10: whether the program only appends to the file, or locks it.
        var accessPattern: ClaimRequest.AccessPattern
        var isHeld = false
        /// D3: whether the claim goes before other waiting claims, to end a deadlock.
        var overtakes = false
        /// D1: whether the program has closed the claim's handle.
        var isClosed = false
        var wasForced = false
        /// T6: whether an event has told the arbiter that the time of the waiting claim is over.
        var isOverdue = false
        /// Whether the claim was let through to end a deadlock.
        var isExpired = false
        var party: Party?
        var suspension: Suspension?
        var isClean = false
        /// Whether a presenter has reported progress while the claim waited.
        var isExtended = false
        var lastSeen: Observation?

        var id: ClaimID { request.claim }
        var nature: ClaimRequest.Nature { request.nature }
        var onlyReads: Bool { parts.allSatisfy { !$0.access.isWrite } }
        var isBatch: Bool { nature == .batch }
    }

    struct PresenterModel {
        let presenter: Presenter
        var item: ItemID?
        var place: Place
        /// The number of the last event that changed which item the presenter shows.
        var number: Int
        /// Whether the presented name was deleted, and no item has got this name since then.
        var isGone = false
        var party: Party { presenter.party }

        func implements(_ notice: PresenterNotice) -> Bool {
            presenter.messages.contains(PresenterMessages(notice))
        }

        func implements(_ request: PresenterRequest) -> Bool {
            presenter.messages.contains(PresenterMessages(request))
        }
    }

    let bounds: Bounds
    var now = Instant(nanoseconds: 0)
    var claims: [ClaimID: ClaimModel] = [:]
    var directories: [ItemID: DirectoryInfo] = [:]
    var presenterModels: [PresenterID: PresenterModel] = [:]
    /// The questions that are neither answered nor forfeited.
    var questions: [QuestionID: Question] = [:]
    /// For each question, the waiting claim that caused it, if only one claim can have caused it.
    var askers: [QuestionID: ClaimID] = [:]
    /// The future moments at which the arbiter wants a tick.
    var wakes = WakeSchedule()
    /// The number of events up to now.
    var number = 0
    /// The number of the last event that changed the place of an item.
    var lastStructuralChange = 0
    /// The items that were deleted and were not created once more since then.
    var gone: Set<ItemID> = []
    /// The items that got a name since the model last had no claims, no questions and no requested ticks.
    var newcomers: Set<ItemID> = []

    init(bounds: Bounds) { self.bounds = bounds }

    var waiting: [ClaimModel] { claims.values.filter { !$0.isHeld }.sorted { $0.id < $1.id } }
    var held: [ClaimModel] { claims.values.filter(\.isHeld).sorted { $0.id < $1.id } }
    var wake: Instant? { wakes.next }
    var isQuiet: Bool { claims.isEmpty && questions.isEmpty && wake == nil }
}

/// Records the events.
extension WorldModel {
    mutating func note(_ event: ArbiterEvent, at now: Instant) {
        self.now = max(self.now, now)
        number += 1
        noteLife(event)
        switch event {
        case .claimed(let request):
            let entry = ClaimModel(
                request: request, parts: request.parts, arrived: self.now, number: number,
                accessPattern: request.accessPattern)
            let requiredLocks = requiredLocks(entry)
            claims[request.claim] = entry
            claims[request.claim]?.requiredLocks = requiredLocks
        case .identified(let id, let party): if claims[id]?.party == nil { claims[id]?.party = party }
        case .observed(let id, let observation): claims[id]?.lastSeen = observation
        // A waiting claim that is ended stays until the arbiter refuses it.
        case .ended(let id): if claims[id]?.isHeld ?? false { claims[id] = nil }
        case .closed(let id): claims[id]?.isClosed = true
        case .forced(let id): claims[id]?.wasForced = true
        case .overdue(let id): claims[id]?.isOverdue = true
        case .locked(let id): if claims[id]?.nature == .handle { claims[id]?.accessPattern.insert(.locks) }
        case .vacated(let document, let orphan): moveHandles(document, to: orphan)
        case .replaced(let document, let incoming, let orphan): replace(document, incoming, orphan)
        case .placed(let item, let directory): directories[item] = directory
        case .forgotten(let item): directories[item] = nil
        case .relinked(let link, let item, let place): relink(link, to: item, place)
        case .presented(let presenter):
            presenterModels[presenter.id] = PresenterModel(
                presenter: presenter, item: presenter.item, place: presenter.place, number: number)
        case .shown(let id, let item, let place):
            presenterModels[id]?.item = item
            presenterModels[id]?.place = place
            presenterModels[id]?.number = number
        case .removed(let id):
            presenterModels[id] = nil
            for question in questions.values where question.presenter == id { close(question.id) }
        case .answered(let id, let presenter, _):
            if questions[id]?.presenter == presenter { close(id) }
        case .progressed(let id): progress(id)
        case .hurried(let id, let span): hurry(id, to: span)
        case .moved(let item, let move, _, _): self.move(item, move)
        case .tick: wakes.pass(self.now)
        case .withdrawn, .paused, .resumed, .muted, .unmuted, .changed, .written, .created, .deleted, .lost,
            .versioned:
            break
        }
        switch event {
        case .placed, .forgotten, .moved, .vacated, .replaced, .relinked:
            lastStructuralChange = number
            let requiredLocks = claims.mapValues { self.requiredLocks($0) }
            for (id, requiredLocks) in requiredLocks { claims[id]?.requiredLocks = requiredLocks }
        default: break
        }
    }

    private mutating func noteLife(_ event: ArbiterEvent) {
        if isQuiet { newcomers = [] }
        switch event {
        case .created(let item, _, _, _), .moved(let item, _, _, _), .replaced(let item, _, _):
            newcomers.insert(item)
        default: break
        }
        switch event {
        case .created(let item, _, _, _), .replaced(let item, _, _):
            gone.remove(item)
            for (id, presenterModel) in presenterModels where presenterModel.item == item {
                presenterModels[id]?.isGone = false
            }
        // If the deleted name has a link number, which tells the names of one file apart, the file can have other names. Then
        // the item is not counted as gone.
        case .deleted(let item, let place, _, _):
            if place.link == nil { gone.insert(item) }
            lose(item, place)
        case .lost(let item, let place, _):
            gone.insert(item)
            lose(item, place)
        // N9: the item was not deleted, because it is moved now.
        case .moved(let item, let move, _, _):
            gone.remove(item)
            for (id, presenterModel) in presenterModels where presenterModel.item == item {
                if [move.from, move.to].contains(where: presenterModel.place.isSameName) {
                    presenterModels[id]?.isGone = false
                }
            }
        default: break
        }
    }

    private mutating func lose(_ item: ItemID, _ place: Place) {
        for (id, presenterModel) in presenterModels
        where presenterModel.item == item && presenterModel.place.isSameName(as: place) {
            presenterModels[id]?.isGone = true
        }
    }

    private mutating func hurry(_ id: QuestionID, to span: TimeSpan) {
        guard let question = questions[id] else { return }
        questions[id]?.deadline = min(question.deadline, max(now, question.asked + span))
    }

    private mutating func progress(_ id: QuestionID) {
        guard let question = questions[id] else { return }
        let extended = min(now + span(for: question.request), question.asked + bounds.progress)
        if extended > question.deadline { questions[id]?.deadline = extended }
        let presenterModel = presenterModels[question.presenter]
        for (claim, entry) in claims where !entry.isHeld {
            // If an item was moved after the claim arrived, it is not known whether the claim waited for this presenter.
            let isConcerned = presenterModel.map { concerns($0, entry) } ?? false
            if isConcerned || lastStructuralChange >= entry.number { claims[claim]?.isExtended = true }
        }
    }

    /// P4: the time in which a presenter must answer a question.
    func span(for request: PresenterRequest) -> TimeSpan {
        switch request {
        case .relinquishToReader, .relinquishToWriter: bounds.relinquish
        case .save: bounds.save
        case .accommodateDeletion, .accommodateSubitemDeletion: bounds.deletion
        }
    }

    private mutating func changeParts(
        _ body: (ClaimModel, ClaimRequest.Part) -> (ItemID, Place)?
    ) {
        for id in claims.keys {
            guard let entry = claims[id] else { continue }
            claims[id]?.parts = entry.parts.map { part in
                guard let (item, place) = body(entry, part) else { return part }
                return ClaimRequest.Part(item, part.access, at: place, via: part.via)
            }
        }
    }

    /// R1: when a document's file is replaced, the claims of open handles stay with the old file, which is now an orphan.
    private mutating func moveHandles(_ document: ItemID, to orphan: ItemID) {
        changeParts { entry, part in
            entry.isHeld && entry.nature == .handle && part.item == document ? (orphan, Place()) : nil
        }
    }

    /// R2, P11: when a new file becomes the document in a save, the new file's claims and presenters move to the document.
    private mutating func replace(_ document: ItemID, _ incoming: ItemID, _ orphan: ItemID?) {
        if let orphan { moveHandles(document, to: orphan) }
        changeParts { _, part in part.item == incoming ? (document, part.place) : nil }
        for id in presenterModels.keys where presenterModels[id]?.item == incoming {
            presenterModels[id]?.item = document
        }
    }

    /// S7: when a symbolic link gets a new target, waiting claims that follow the link wait for the new target.
    private mutating func relink(_ link: ItemID, to item: ItemID, _ place: Place) {
        changeParts { entry, part in
            !entry.isHeld && part.via == link && !part.access.isWrite ? (item, place) : nil
        }
    }

    /// S5, S6: makes the claims and presenters of a moved item follow the item.
    private mutating func move(_ item: ItemID, _ move: Move) {
        directories[item]?.parent = move.to.directory
        let isDirectory = directories[item] != nil
        changeParts { entry, part in
            guard part.item == item, part.place.isSameName(as: move.from),
                part.place.directory == move.from.directory || isDirectory
            else { return nil }
            let isMaker = entry.isHeld && entry.nature == .handle
            if part.access == .write(.forReplacing), !isMaker {
                return move.placeholder.map { ($0, move.from) }
            }
            return (item, move.to)
        }
        for (id, presenterModel) in presenterModels
        where presenterModel.item == item && presenterModel.place.isSameName(as: move.from) {
            presenterModels[id]?.place = move.to
        }
    }
}

/// Records the effects.
extension WorldModel {
    private mutating func close(_ id: QuestionID) {
        questions[id] = nil
        askers[id] = nil
    }

    /// Returns the only claim that can have caused a question; nil if several claims can.
    func asker(of question: Question) -> ClaimID? {
        guard let presenterModel = presenterModels[question.presenter] else { return nil }
        // If the deletion has already happened, no claim has caused the question.
        let lost = question.subitem ?? presenterModel.item
        if question.request.isDeletion, lost.map(gone.contains) ?? true { return nil }
        let candidates = claims.values.filter { claim in
            !claim.isHeld && claim.nature != .pendingSave
                && (claim.party.map { Self.areOneProgram($0, question.cause.party) } ?? true)
                && (concerns(presenterModel, claim) || lastStructuralChange >= claim.number)
        }
        guard candidates.count == 1, let only = candidates.first, only.party == question.cause.party,
            lastStructuralChange < only.number, presenterModel.number < only.number
        else { return nil }
        return only.id
    }

    mutating func note(_ effect: Effect) {
        switch effect {
        case .grant(let id, _): claims[id]?.isHeld = true
        case .refuse(let id, _): claims[id] = nil
        case .suspend(let id, let suspension):
            claims[id]?.suspension = suspension
            guard suspension == .yielded || suspension == .holdExpired else { break }
            switch claims[id]?.lastSeen {
            case .clean where suspension == .yielded: claims[id]?.isClean = true
            case .unchanged: claims[id]?.isClean = true
            default: break
            }
        case .deadlock(let deadlock):
            if deadlock.resolution == .overtakes { claims[deadlock.claim]?.overtakes = true }
            if deadlock.resolution == .proceeds { claims[deadlock.claim]?.isExpired = true }
        case .ask(let question):
            questions[question.id] = question
            askers[question.id] = asker(of: question)
        case .forfeit(let question, _):
            close(question.id)
        case .wake(let moment): wakes.ask(for: moment)
        // P1: the arbiter chooses the claim's presenters a second time. Questions from the first choice no longer count as
        // caused by this claim.
        case .retarget(let id, _, _): askers = askers.filter { $1 != id }
        case .identify, .observe, .tell: break
        }
    }
}
