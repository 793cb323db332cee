// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Each change of an item is told once to everyone who shows it, and never to the one who did it (P5, P6, N1, N2, N4, N9,
/// N11, N12). What is told of names below is looked at by the ``BeliefChecker``.
struct NoticeChecker: Checker {
    enum What { case moved, changed, deleted }

    /// Something a presenter is still to be told of what it shows.
    struct Due {
        let presenter: PresenterID
        /// What it happened to.
        let origin: ItemID
        let what: What
        /// Of a move: the former place.
        var former: Place?
        let party: Party
        /// Whether it must be told; else it may.
        var isCertain: Bool
        /// The event that made it so, and when.
        let number: Int
        let moment: Instant
    }

    var dues: [Due] = []
    /// N6: the parties that did something below what is shown, and may be named for want of something better; and when they
    /// did it last.
    var parties: [PresenterID: [Party: Instant]] = [:]
    private var families = Families()
    /// Claims that are live, or were not long ago.
    var recent: [ClaimID: Recent] = [:]
    /// Turns in which something was asked, and that is not over: who wanted it last.
    var open: [TurnID: Asked] = [:]
    /// P9: when presenters owed a save last, for which several turns may wait.
    var saveOwed: [PresenterID: Instant] = [:]
    /// For whom each claim's maker owed an answer while it waited.
    private var debts: [ClaimID: Debts] = [:]
    /// The stamp that was told when a claim was suspended.
    private var toldStamps: [ClaimID: UInt64] = [:]

    struct Recent {
        let entry: Ledger.Entry
        var last: Instant
        var isOver = false
    }

    struct Asked {
        let question: Question
        /// When it was owed last.
        var last: Instant
    }

    /// P6: whose own save an access may be, and whose it surely is.
    private struct Debts {
        var ever: Set<PresenterID>
        var always: Set<PresenterID>
    }

    mutating func hear(_ event: Event, _ ledger: Ledger, _ report: inout Report) {
        noteDebts(ledger)
        noteRecent(ledger)
        for question in ledger.questions.values {
            open[question.turn]?.last = ledger.now
            if question.request == .save { saveOwed[question.presenter] = ledger.now }
        }
        switch event {
        case .changed(let item, let place, let cause, let claim, let stamp):
            let isNew = claim.map { toldStamps[$0] != stamp } ?? true
            let act = Act(item: item, place: place, claim: claim, party: party(claim, cause.party, ledger))
            changed(act, isCertain: isNew, ledger)
        case .written(let item, let place, let cause, let claim, let stamp):
            let act = Act(item: item, place: place, claim: claim, party: party(claim, cause.party, ledger))
            changed(act, isCertain: true, ledger)
            if let claim { toldStamps[claim] = stamp }
        case .created(let item, let place, let party, let claim):
            let act = Act(item: item, place: place, claim: claim, party: self.party(claim, party, ledger))
            noteBelow(act, ledger)
            returned(act, ledger)
        case .deleted(let item, let place, let party, let claim):
            let act = Act(item: item, place: place, claim: claim, party: self.party(claim, party, ledger))
            deleted(act, isCertain: true, ledger)
        case .lost(let item, let place, let party):
            deleted(Act(item: item, place: place, claim: nil, party: party), isCertain: true, ledger)
        case .moved(let item, let move, let party, let claim):
            moved(item, move, self.party(claim, party, ledger), claim, ledger)
        case .replaced(let document, let incoming, _): becomes(incoming, document)
        case .vacated(let document, _): becomes(document, document)
        case .placed(let item, _): isMarked(item, ledger)
        case .identified(_, let party): families.note(party)
        case .answered(let id, let presenter, _):
            close(id, ledger)
            if saveOwed[presenter] != nil { saveOwed[presenter] = ledger.now }
        case .removed(let id):
            dues.removeAll { $0.presenter == id }
            parties[id] = nil
            open = open.filter { $1.question.presenter != id }
        default: break
        }
    }

    private struct Act {
        let item: ItemID
        let place: Place
        let claim: ClaimID?
        let party: Party
    }

    private func party(_ claim: ClaimID?, _ party: Party, _ ledger: Ledger) -> Party {
        claim.flatMap { ledger.claims[$0]?.party } ?? party
    }

    /// What its presenters hear of it may be another thing now.
    private mutating func isMarked(_ item: ItemID, _ ledger: Ledger) {
        for index in dues.indices where ledger.showings[dues[index].presenter]?.item == item {
            dues[index].isCertain = false
        }
    }

    private mutating func noteRecent(_ ledger: Ledger) {
        if ledger.showings.isEmpty {
            if !recent.isEmpty { recent = [:] }
            return
        }
        let span = Span(nanoseconds: max(ledger.bounds.trailing, ledger.bounds.steps).nanoseconds * 2)
        for (id, known) in recent where ledger.claims[id] == nil {
            if !known.isOver {
                recent[id]?.last = ledger.now
                recent[id]?.isOver = true
            } else if ledger.now > known.last + span {
                recent[id] = nil
            }
        }
        for claim in ledger.claims.values { recent[claim.id] = Recent(entry: claim, last: ledger.now) }
    }

    private mutating func close(_ id: QuestionID, _ ledger: Ledger) {
        for (turn, asked) in open where asked.question.id == id { open[turn]?.last = ledger.now }
    }

    private mutating func noteDebts(_ ledger: Ledger) {
        debts = debts.filter { ledger.claims[$0.key] != nil }
        if ledger.questions.isEmpty, debts.isEmpty { return }
        for claim in ledger.claims.values where !claim.isHeld {
            guard let party = claim.party else { continue }
            let creditors =
                ledger.questions.isEmpty
                ? [] : ledger.creditors(of: party, answering: claim.request.answering)
            debts[claim.id, default: Debts(ever: [], always: creditors)].ever.formUnion(creditors)
            debts[claim.id]?.always.formIntersection(creditors)
        }
    }

    /// P6: who was asked just now may owe the answer to somebody behind whom the party's claims go on.
    private mutating func noteDebts(to question: Question, _ ledger: Ledger) {
        for claim in ledger.claims.values where !claim.isHeld {
            guard let party = claim.party,
                ledger.isForItsSake(party, answering: claim.request.answering, question)
            else { continue }
            debts[claim.id, default: Debts(ever: [], always: [])].ever.insert(question.presenter)
        }
    }

    /// Notes what is due to a presenter, if it is concerned at all.
    private mutating func add(
        _ what: What, to showing: Ledger.Showing, _ act: Act, isCertain: Bool, from former: Place? = nil,
        evenIfGone: Bool = false, _ ledger: Ledger
    ) {
        if ledger.isOwn(act.party, showing) { return }
        families.note(act.party)
        // P6.
        let id = showing.presenter.id
        let known = act.claim.flatMap { debts[$0] }
        if known?.always.contains(id) ?? false, isPut(act.claim, to: showing, ledger) {
            return
        }
        let isForItsSake =
            known?.ever.contains(id) ?? false
            || ledger.creditors(
                of: act.party, answering: act.claim.flatMap { ledger.claims[$0]?.request.answering }
            ).contains(id)
        dues.append(
            Due(
                presenter: id, origin: act.item, what: what, former: former, party: act.party,
                isCertain: isCertain && !isForItsSake && (evenIfGone || !showing.isGone),
                number: ledger.number,
                moment: ledger.now))
    }

    /// Whether a presenter would surely have been asked for a claim, had it not worked for it.
    private func isPut(_ claim: ClaimID?, to showing: Ledger.Showing, _ ledger: Ledger) -> Bool {
        guard let claim = claim.flatMap({ ledger.claims[$0] }), ledger.upheaval < claim.number,
            showing.number < claim.number, claim.nature != .episode
        else { return false }
        return claim.parts.contains { part in
            let position = ledger.position(of: showing, to: part.item, part.place)
            let isThisName = !part.access.isStructural || showing.place.isSameName(as: part.place)
            return position == .packageAbove || (position == .of && isThisName)
        }
    }

    /// N6: a package that does not implement what it would be told is told that it changed. A plain directory may be a package
    /// when it is told.
    private mutating func noteBelow(_ act: Act, from: Place? = nil, _ ledger: Ledger) {
        var above = Set(ledger.above(act.item, act.place))
        if let directory = from?.directory { above.formUnion([directory] + ledger.above(directory, Place())) }
        for (id, showing) in ledger.showings where showing.item.map(above.contains) ?? false {
            families.note(act.party)
            parties[id, default: [:]][act.party] = ledger.now
        }
    }

    private mutating func changed(_ act: Act, isCertain: Bool, _ ledger: Ledger) {
        for showing in ledger.showings.values where showing.item == act.item && !ledger.isPlain(act.item) {
            guard showing.implements(.didChange) else { continue }
            add(.changed, to: showing, act, isCertain: isCertain, ledger)
        }
        noteBelow(act, ledger)
    }

    /// N9: what presenters of the item were to be told of its end is not so any more.
    private mutating func returned(_ act: Act, _ ledger: Ledger) {
        for index in dues.indices where dues[index].what == .deleted {
            let shown = ledger.showings[dues[index].presenter]?.item
            if shown == act.item { dues[index].isCertain = false }
        }
        for showing in ledger.showings.values where showing.item == act.item && showing.implements(.didChange)
        {
            add(.changed, to: showing, act, isCertain: !ledger.isPlain(act.item), ledger)
        }
    }

    private mutating func deleted(_ act: Act, isCertain: Bool, _ ledger: Ledger) {
        for showing in ledger.showings.values
        where showing.item == act.item && showing.place.isSameName(as: act.place) {
            // N9: not if its turn asked it to make way, which who implements that may have been.
            // And nothing else that happened to it in that turn.
            let isSure = isCertain && !showing.implements(.accommodateDeletion) && !ledger.isPlain(act.item)
            for index in dues.indices where dues[index].presenter == showing.presenter.id {
                dues[index].isCertain = false
            }
            if showing.implements(.didChange) {
                add(.deleted, to: showing, act, isCertain: isSure, evenIfGone: true, ledger)
            }
        }
        noteBelow(act, ledger)
    }

    /// N2.
    private mutating func moved(
        _ item: ItemID, _ move: Move, _ party: Party, _ claim: ClaimID?, _ ledger: Ledger
    ) {
        let act = Act(item: item, place: move.to, claim: claim, party: party)
        // N8, N9: what was taken for deleted has moved.
        for index in dues.indices where dues[index].what == .deleted && dues[index].origin == item {
            dues[index].isCertain = false
        }
        // N11.
        let isBack = dues.contains { $0.what == .moved && $0.origin == item && $0.former == move.to }
        for index in dues.indices where isBack && dues[index].what == .moved && dues[index].origin == item {
            dues[index].isCertain = false
        }
        for showing in ledger.showings.values {
            guard let shown = showing.item, showing.implements(.didMove) else { continue }
            let isItself = shown == item && showing.place == move.to
            guard isItself || (shown != item && ledger.above(shown, showing.place).contains(item)) else {
                continue
            }
            add(.moved, to: showing, act, isCertain: !isBack, from: move.from, ledger)
        }
        noteBelow(act, from: move.from, ledger)
    }

    /// What was due of one item may be told of the other, or not at all.
    private mutating func becomes(_ incoming: ItemID, _ document: ItemID) {
        for index in dues.indices where dues[index].origin == incoming || dues[index].origin == document {
            dues[index].isCertain = false
        }
    }

    mutating func see(_ effect: Effect, of event: Event, _ ledger: Ledger, _ report: inout Report) {
        switch effect {
        case .ask(let question):
            checkNews(before: question, &report)
            open[question.turn] = Asked(question: question, last: ledger.now)
            noteDebts(to: question, ledger)
        // Who went ahead was not put to its presenters, maybe.
        case .grant(let id, let grant): if grant.basis == .proceeded { debts[id]?.always = [] }
        case .forfeit(let question, _):
            if question.request == .save { saveOwed[question.presenter] = ledger.now }
            close(question.id, ledger)
            for id in debts.keys { debts[id]?.always.remove(question.presenter) }
        case .tell(let notice): check(notice, ledger, &report)
        case .suspend(let id, _): noteSuspension(id, ledger)
        default: break
        }
    }

    /// N5: a presenter that does not know of a change would save over it.
    private func checkNews(before question: Question, _ report: inout Report) {
        guard question.request == .save else { return }
        for due in dues where due.presenter == question.presenter && due.isCertain && due.what != .deleted {
            report.blame("\(question.presenter) is asked to save before it is told: \(Self.text(due))")
        }
    }

    /// N4.
    private mutating func noteSuspension(_ id: ClaimID, _ ledger: Ledger) {
        guard let claim = ledger.claims[id] else { return }
        let party = claim.party ?? .nobody
        switch claim.lastSeen {
        case .dirty(let stamp): toldStamps[id] = stamp
        case .untouched: break
        default: return
        }
        for part in claim.parts where part.access.isWrite {
            let act = Act(item: part.item, place: part.place, claim: id, party: party)
            changed(act, isCertain: false, ledger)
        }
    }

    func isRelated(_ one: Party, _ other: Party) -> Bool { families.areRelated(one, other) }

    mutating func rest(after event: Event, _ ledger: Ledger, _ report: inout Report) {
        if event == .tick { checkPromptness(ledger, &report) }
        if case .written = event { checkGoingOn(ledger, &report) }
        guard ledger.isQuiet else { return }
        for due in dues where due.isCertain {
            report.blame("\(due.presenter) was never told: \(Self.text(due))")
        }
        (dues, debts, toldStamps, open, saveOwed, parties) = ([], [:], [:], [:], [:], [:])
    }

    /// N12.
    private func checkGoingOn(_ ledger: Ledger, _ report: inout Report) {
        for due in dues where due.isCertain && due.number == ledger.number {
            report.blame("\(due.presenter) is not told at once: \(Self.text(due))")
        }
    }

    static func text(_ due: Due) -> String {
        "\(due.what) by \(Command.text(of: due.party))"
    }
}
