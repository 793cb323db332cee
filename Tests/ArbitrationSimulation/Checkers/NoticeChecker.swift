// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Checks that changes of an item are told once to its presenters except the author (P5, P6, N1, N2, N4, N9, N11, N12).
///
/// The ``NameViewChecker`` checks notices of names below an item.
struct NoticeChecker: Checker {
    enum What { case moved, changed, deleted }

    /// A notice that a presenter must still get, or may still get, about the item that it shows.
    struct ExpectedNotice {
        let presenter: PresenterID
        /// The item that was changed, moved or deleted.
        let origin: ItemID
        let what: What
        /// The place of a moved item before the move.
        var former: Place?
        let party: Party
        /// Whether the notice is required. If not, the notice is only allowed.
        var isCertain: Bool
        /// The number of the event because of which the notice is expected; `moment` is its time.
        let number: Int
        let moment: Instant
    }

    var expectedNotices: [ExpectedNotice] = []
    /// N6: for each presenter, the parties that changed something below its item, with the time of their last change.
    ///
    /// A package's notice that it changed may name any of these parties as its cause.
    var parties: [PresenterID: [Party: Instant]] = [:]
    private var families = ProgramFamilies()
    /// The claims that wait or are held, and those that ended a short time ago.
    var recent: [ClaimID: Recent] = [:]
    /// The access sessions in which a question was asked and that have not ended, with the last question.
    var open: [AccessSessionID: QuestionRecord] = [:]
    /// P9: for each presenter, the last time at which it had an unanswered question to save. Several sessions may wait for one
    /// save.
    var saveOwed: [PresenterID: Instant] = [:]
    /// For each waiting claim, the presenters that its party worked for while they owed an answer.
    private var possibleCreditors: [ClaimID: PossibleCreditors] = [:]
    /// The change stamp that was told when each claim was suspended, or in its last notice.
    private var reportedStamps: [ClaimID: UInt64] = [:]

    struct Recent {
        let entry: WorldModel.ClaimModel
        var last: Instant
        var isOver = false
    }

    struct QuestionRecord {
        let question: Question
        /// The last time at which the question was unanswered.
        var last: Instant
    }

    /// P6: the presenters for which an access is perhaps their own save, and those for which it certainly is.
    private struct PossibleCreditors {
        var ever: Set<PresenterID>
        var always: Set<PresenterID>
    }

    mutating func noteEvent(_ event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        noteDebts(model)
        noteRecent(model)
        for question in model.questions.values {
            open[question.accessSession]?.last = model.now
            if question.request == .save { saveOwed[question.presenter] = model.now }
        }
        switch event {
        case .changed(let item, let place, let cause, let claim, let stamp):
            let isNew = claim.map { reportedStamps[$0] != stamp } ?? true
            let act = ObservedChange(
                item: item, place: place, claim: claim, party: party(claim, cause.party, model))
            changed(act, isCertain: isNew, model)
        case .written(let item, let place, let cause, let claim, let stamp):
            let act = ObservedChange(
                item: item, place: place, claim: claim, party: party(claim, cause.party, model))
            changed(act, isCertain: true, model)
            if let claim { reportedStamps[claim] = stamp }
        case .created(let item, let place, let party, let claim):
            let act = ObservedChange(
                item: item, place: place, claim: claim, party: self.party(claim, party, model))
            noteBelow(act, model)
            returned(act, model)
        case .deleted(let item, let place, let party, let claim):
            let act = ObservedChange(
                item: item, place: place, claim: claim, party: self.party(claim, party, model))
            deleted(act, isCertain: true, model)
        case .lost(let item, let place, let party):
            deleted(
                ObservedChange(item: item, place: place, claim: nil, party: party), isCertain: true, model)
        case .moved(let item, let move, let party, let claim):
            moved(item, move, self.party(claim, party, model), claim, model)
        case .replaced(let document, let incoming, _): becomes(incoming, document)
        case .vacated(let document, _): becomes(document, document)
        case .placed(let item, _): isMarked(item, model)
        case .identified(_, let party): families.note(party)
        case .answered(let id, let presenter, _):
            close(id, model)
            if saveOwed[presenter] != nil { saveOwed[presenter] = model.now }
        case .removed(let id):
            expectedNotices.removeAll { $0.presenter == id }
            parties[id] = nil
            open = open.filter { $1.question.presenter != id }
        default: break
        }
    }

    private struct ObservedChange {
        let item: ItemID
        let place: Place
        let claim: ClaimID?
        let party: Party
    }

    private func party(_ claim: ClaimID?, _ party: Party, _ model: WorldModel) -> Party {
        claim.flatMap { model.claims[$0]?.party } ?? party
    }

    /// Makes the notices of an item optional, because an item that became a package is told of by another kind of notice.
    private mutating func isMarked(_ item: ItemID, _ model: WorldModel) {
        for index in expectedNotices.indices
        where model.presenterModels[expectedNotices[index].presenter]?.item == item {
            expectedNotices[index].isCertain = false
        }
    }

    private mutating func noteRecent(_ model: WorldModel) {
        if model.presenterModels.isEmpty {
            if !recent.isEmpty { recent = [:] }
            return
        }
        let span = TimeSpan(nanoseconds: max(model.bounds.trailing, model.bounds.steps).nanoseconds * 2)
        for (id, known) in recent where model.claims[id] == nil {
            if !known.isOver {
                recent[id]?.last = model.now
                recent[id]?.isOver = true
            } else if model.now > known.last + span {
                recent[id] = nil
            }
        }
        for claim in model.claims.values { recent[claim.id] = Recent(entry: claim, last: model.now) }
    }

    private mutating func close(_ id: QuestionID, _ model: WorldModel) {
        for (accessSession, asked) in open where asked.question.id == id {
            open[accessSession]?.last = model.now
        }
    }

    private mutating func noteDebts(_ model: WorldModel) {
        possibleCreditors = possibleCreditors.filter { model.claims[$0.key] != nil }
        if model.questions.isEmpty, possibleCreditors.isEmpty { return }
        for claim in model.claims.values where !claim.isHeld {
            guard let party = claim.party else { continue }
            let owedPresenters =
                model.questions.isEmpty
                ? [] : model.owedPresenters(of: party, answering: claim.request.answering)
            possibleCreditors[claim.id, default: PossibleCreditors(ever: [], always: owedPresenters)].ever
                .formUnion(owedPresenters)
            possibleCreditors[claim.id]?.always.formIntersection(owedPresenters)
        }
    }

    /// P6: records the claims of parties that work for the asked presenter.
    ///
    /// Such a claim may wait in a lock queue behind the claim that asks. Then it waits for the presenter's answer, too.
    private mutating func noteDebts(to question: Question, _ model: WorldModel) {
        for claim in model.claims.values where !claim.isHeld {
            guard let party = claim.party,
                model.isOnItsBehalf(party, answering: claim.request.answering, question)
            else { continue }
            possibleCreditors[claim.id, default: PossibleCreditors(ever: [], always: [])].ever.insert(
                question.presenter)
        }
    }

    /// Adds an expected notice for a presenter, unless the change is the presenter's own.
    private mutating func add(
        _ what: What, to presenterModel: WorldModel.PresenterModel, _ act: ObservedChange, isCertain: Bool,
        from former: Place? = nil,
        evenIfGone: Bool = false, _ model: WorldModel
    ) {
        if model.isOwn(act.party, presenterModel) { return }
        families.note(act.party)
        // P6: if the party certainly worked for the presenter during the whole wait, the change is the presenter's own.
        let id = presenterModel.presenter.id
        let known = act.claim.flatMap { possibleCreditors[$0] }
        if known?.always.contains(id) ?? false, wasSurelyConsulted(act.claim, to: presenterModel, model) {
            return
        }
        let isOnItsBehalf =
            known?.ever.contains(id) ?? false
            || model.owedPresenters(
                of: act.party, answering: act.claim.flatMap { model.claims[$0]?.request.answering }
            ).contains(id)
        expectedNotices.append(
            ExpectedNotice(
                presenter: id, origin: act.item, what: what, former: former, party: act.party,
                isCertain: isCertain && !isOnItsBehalf && (evenIfGone || !presenterModel.isGone),
                number: model.number,
                moment: model.now))
    }

    /// Whether the claim certainly chose its presenters and the presenter is one of them.
    private func wasSurelyConsulted(
        _ claim: ClaimID?, to presenterModel: WorldModel.PresenterModel, _ model: WorldModel
    ) -> Bool {
        guard let claim = claim.flatMap({ model.claims[$0] }), model.lastStructuralChange < claim.number,
            presenterModel.number < claim.number, claim.nature != .pendingSave
        else { return false }
        return claim.parts.contains { part in
            let position = model.position(of: presenterModel, to: part.item, part.place)
            let isThisName = !part.access.isStructural || presenterModel.place.isSameName(as: part.place)
            return position == .packageAbove || (position == .of && isThisName)
        }
    }

    /// N6: records the party of a change for the presenters above. A presenter of a package that does not implement the exact
    /// notice is told that it changed.
    ///
    /// A directory that is plain now may be a package at the time of the notice.
    private mutating func noteBelow(_ act: ObservedChange, from: Place? = nil, _ model: WorldModel) {
        var above = Set(model.above(act.item, act.place))
        if let directory = from?.directory { above.formUnion([directory] + model.above(directory, Place())) }
        for (id, presenterModel) in model.presenterModels
        where presenterModel.item.map(above.contains) ?? false {
            families.note(act.party)
            parties[id, default: [:]][act.party] = model.now
        }
    }

    private mutating func changed(_ act: ObservedChange, isCertain: Bool, _ model: WorldModel) {
        for presenterModel in model.presenterModels.values
        where presenterModel.item == act.item && !model.isPlain(act.item) {
            guard presenterModel.implements(.didChange) else { continue }
            add(.changed, to: presenterModel, act, isCertain: isCertain, model)
        }
        noteBelow(act, model)
    }

    /// N9: the item exists again, so notices of its deletion are no longer required.
    private mutating func returned(_ act: ObservedChange, _ model: WorldModel) {
        for index in expectedNotices.indices where expectedNotices[index].what == .deleted {
            let shown = model.presenterModels[expectedNotices[index].presenter]?.item
            if shown == act.item { expectedNotices[index].isCertain = false }
        }
        for presenterModel in model.presenterModels.values
        where presenterModel.item == act.item && presenterModel.implements(.didChange) {
            add(.changed, to: presenterModel, act, isCertain: !model.isPlain(act.item), model)
        }
    }

    private mutating func deleted(_ act: ObservedChange, isCertain: Bool, _ model: WorldModel) {
        for presenterModel in model.presenterModels.values
        where presenterModel.item == act.item && presenterModel.place.isSameName(as: act.place) {
            // N9: the notice is not required if the session asked the presenter about the deletion. Any presenter that
            // implements this question may have been asked. Other notices of that session are not required either.
            let isSure =
                isCertain && !presenterModel.implements(.accommodateDeletion) && !model.isPlain(act.item)
            for index in expectedNotices.indices
            where expectedNotices[index].presenter == presenterModel.presenter.id {
                expectedNotices[index].isCertain = false
            }
            if presenterModel.implements(.didChange) {
                add(.deleted, to: presenterModel, act, isCertain: isSure, evenIfGone: true, model)
            }
        }
        noteBelow(act, model)
    }

    /// N2: adds the notices of a move, for presenters of the item and of items below a moved directory.
    private mutating func moved(
        _ item: ItemID, _ move: Move, _ party: Party, _ claim: ClaimID?, _ model: WorldModel
    ) {
        let act = ObservedChange(item: item, place: move.to, claim: claim, party: party)
        // N8, N9: an item that seemed to be deleted has moved, so no notice of the deletion is required.
        for index in expectedNotices.indices
        where expectedNotices[index].what == .deleted && expectedNotices[index].origin == item {
            expectedNotices[index].isCertain = false
        }
        // N11: an item that is back at its former name has not moved, so no notice of the move is required.
        let isBack = expectedNotices.contains {
            $0.what == .moved && $0.origin == item && $0.former == move.to
        }
        for index in expectedNotices.indices
        where isBack && expectedNotices[index].what == .moved && expectedNotices[index].origin == item {
            expectedNotices[index].isCertain = false
        }
        for presenterModel in model.presenterModels.values {
            guard let shown = presenterModel.item, presenterModel.implements(.didMove) else { continue }
            let isItself = shown == item && presenterModel.place == move.to
            guard isItself || (shown != item && model.above(shown, presenterModel.place).contains(item))
            else {
                continue
            }
            add(.moved, to: presenterModel, act, isCertain: !isBack, from: move.from, model)
        }
        noteBelow(act, from: move.from, model)
    }

    /// When a file becomes a document, the notices expected for either item become optional.
    private mutating func becomes(_ incoming: ItemID, _ document: ItemID) {
        for index in expectedNotices.indices
        where expectedNotices[index].origin == incoming || expectedNotices[index].origin == document {
            expectedNotices[index].isCertain = false
        }
    }

    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        switch effect {
        case .ask(let question):
            checkNews(before: question, &report)
            open[question.accessSession] = QuestionRecord(question: question, last: model.now)
            noteDebts(to: question, model)
        // The presenters of a claim that proceeded were perhaps not asked.
        case .grant(let id, let grant): if grant.basis == .proceeded { possibleCreditors[id]?.always = [] }
        case .forfeit(let question, _):
            if question.request == .save { saveOwed[question.presenter] = model.now }
            close(question.id, model)
            for id in possibleCreditors.keys { possibleCreditors[id]?.always.remove(question.presenter) }
        case .tell(let notice): check(notice, model, &report)
        case .suspend(let id, _): noteSuspension(id, model)
        default: break
        }
    }

    /// N5: checks that a presenter was told of all changes before it is asked to save, since its save would overwrite them.
    private func checkNews(before question: Question, _ report: inout ViolationReport) {
        guard question.request == .save else { return }
        for expected in expectedNotices
        where expected.presenter == question.presenter && expected.isCertain && expected.what != .deleted {
            report.addViolation(
                "\(question.presenter) is asked to save before it is told: \(Self.text(expected))")
        }
    }

    /// N4: a suspended writer may have changed its items, so notices of a change are allowed.
    private mutating func noteSuspension(_ id: ClaimID, _ model: WorldModel) {
        guard let claim = model.claims[id] else { return }
        let party = claim.party ?? .nobody
        switch claim.lastSeen {
        case .dirty(let stamp): reportedStamps[id] = stamp
        case .emptied: break
        default: return
        }
        for part in claim.parts where part.access.isWrite {
            let act = ObservedChange(item: part.item, place: part.place, claim: id, party: party)
            changed(act, isCertain: false, model)
        }
    }

    func isRelated(_ one: Party, _ other: Party) -> Bool { families.areRelated(one, other) }

    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        if event == .tick { checkPromptness(model, &report) }
        if case .written = event { checkGoingOn(model, &report) }
        guard model.isQuiet else { return }
        for expected in expectedNotices where expected.isCertain {
            report.addViolation("\(expected.presenter) was never told: \(Self.text(expected))")
        }
        (expectedNotices, possibleCreditors, reportedStamps, open, saveOwed, parties) = (
            [], [:], [:], [:], [:], [:]
        )
    }

    /// N12: checks that a change by a program that goes on writing is told in the same event.
    private func checkGoingOn(_ model: WorldModel, _ report: inout ViolationReport) {
        for expected in expectedNotices where expected.isCertain && expected.number == model.number {
            report.addViolation("\(expected.presenter) is not told at once: \(Self.text(expected))")
        }
    }

    static func text(_ expected: ExpectedNotice) -> String {
        "\(expected.what) by \(CommandWriter.text(of: expected.party))"
    }
}
