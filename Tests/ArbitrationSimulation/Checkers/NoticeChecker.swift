// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Each change is told once to everyone concerned, and never to the one who did it (P5, P6, N1, N2, N4, N6 to N9).
struct NoticeChecker: Checker {
    enum What { case moved, changed, appeared, deleted }

    /// Something a presenter is still to be told.
    struct Due {
        let presenter: PresenterID
        /// Nil for what it shows itself.
        var subitem: ItemID?
        let what: What
        let party: Party
        /// Whether it must be told; else it may.
        var isCertain: Bool
        /// The event that made it so, and when.
        let number: Int
        let moment: Instant
    }

    var dues: [Due] = []
    /// Claims whose makers worked for a presenter while it owed an answer.
    private var debtors: Set<ClaimID> = []
    /// The stamp that was told when a claim was suspended.
    /// When something was asked in a turn for the first time.
    /// Claims that are live, or were not long ago, and when that was.
    private var recent: [ClaimID: (party: Party?, arrived: Instant, last: Instant)] = [:]
    private var began: [TurnID: Instant] = [:]
    private var toldStamps: [ClaimID: UInt64] = [:]

    mutating func hear(_ event: Event, _ ledger: Ledger, _ report: inout Report) {
        noteDebtors(ledger)
        for claim in ledger.claims.values { recent[claim.id] = (claim.party, claim.arrived, ledger.now) }
        recent = recent.filter { ledger.now <= $1.last + ledger.bounds.trailing + ledger.bounds.trailing }
        switch event {
        case .changed(let item, let place, let cause, let claim, let stamp):
            let isNew = claim.map { toldStamps[$0] != stamp } ?? true
            let act = Act(item: item, place: place, claim: claim, party: party(claim, cause.party, ledger))
            changed(act, isCertain: isNew, ledger)
        case .created(let item, let place, let party, let claim):
            let act = Act(item: item, place: place, claim: claim, party: self.party(claim, party, ledger))
            tellAbove(act, .appeared, ledger)
            for showing in ledger.showings.values where showing.item == item && showing.implements(.didChange)
            {
                add(.changed, to: showing, of: nil, act, isCertain: false, ledger)
            }
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
        case .removed(let id): dues.removeAll { $0.presenter == id }
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

    private mutating func noteDebtors(_ ledger: Ledger) {
        if ledger.questions.isEmpty { return }
        for claim in ledger.claims.values {
            if let party = claim.party, ledger.isDebtor(party) { debtors.insert(claim.id) }
        }
    }

    /// Notes what is due to a presenter, if it is concerned at all.
    private mutating func add(
        _ what: What, to showing: Ledger.Showing, of subitem: ItemID?, _ act: Act, isCertain: Bool,
        evenIfGone: Bool = false, _ ledger: Ledger
    ) {
        if ledger.isOwn(act.party, showing) { return }
        // P6.
        let isForItsSake =
            act.party.works(for: showing.party)
            && (ledger.isDebtor(act.party) || act.claim.map(debtors.contains) ?? false)
        // N8: an appearance includes changes, for one who does not hear of appearances as well.
        let isIncluded =
            what == .changed
            && dues.contains {
                $0.presenter == showing.presenter.id && $0.subitem == act.item && $0.what == .appeared
                    && isRelated($0.party, act.party)
            }
        dues.append(
            Due(
                presenter: showing.presenter.id, subitem: subitem, what: what, party: act.party,
                isCertain: isCertain && !isForItsSake && !isIncluded && (evenIfGone || !showing.isGone),
                number: ledger.number,
                moment: ledger.now))
    }

    /// N6: those above, with the fallback of packages.
    private mutating func tellAbove(
        _ act: Act, _ what: What, isCertain: Bool = true, except: Set<PresenterID> = [], _ ledger: Ledger
    ) {
        let notice: PresenterNotice =
            switch what {
            case .appeared: .subitemDidAppear
            case .moved: .subitemDidMove
            case .changed, .deleted: .subitemDidChange
            }
        for (id, showing) in ledger.showings where !except.contains(id) {
            let position = ledger.position(of: showing, to: act.item, act.place)
            guard position == .packageAbove || position == .plainAbove else { continue }
            if showing.implements(notice) {
                add(what, to: showing, of: act.item, act, isCertain: isCertain, ledger)
            } else {
                if what == .appeared {
                    add(.appeared, to: showing, of: act.item, act, isCertain: false, ledger)
                }
                // A plain directory may be a package when it is told.
                guard showing.implements(.didChange) else { continue }
                let isSure = isCertain && position == .packageAbove
                add(.changed, to: showing, of: nil, act, isCertain: isSure, ledger)
            }
        }
    }

    private mutating func changed(_ act: Act, isCertain: Bool, _ ledger: Ledger) {
        for showing in ledger.showings.values where showing.item == act.item {
            let isPlain = ledger.isPlain(act.item)
            if isPlain, showing.implements(.subitemDidChange) {
                add(.changed, to: showing, of: act.item, act, isCertain: isCertain, ledger)
            } else if !isPlain, showing.implements(.didChange) {
                add(.changed, to: showing, of: nil, act, isCertain: isCertain, ledger)
            }
        }
        tellAbove(act, .changed, isCertain: isCertain, ledger)
    }

    private mutating func deleted(_ act: Act, isCertain: Bool, _ ledger: Ledger) {
        for showing in ledger.showings.values
        where showing.item == act.item && showing.place.isSameName(as: act.place) {
            // N9: not if its turn asked it to make way, which who implements that may have been.
            // And nothing else that happened to it in that turn.
            let isSure = isCertain && !showing.implements(.accommodateDeletion)
            for index in dues.indices
            where dues[index].presenter == showing.presenter.id && dues[index].subitem == nil {
                dues[index].isCertain = false
            }
            let isPlain = ledger.isPlain(act.item)
            if showing.implements(.didChange) {
                add(
                    .changed, to: showing, of: nil, act, isCertain: isSure && !isPlain, evenIfGone: true,
                    ledger)
            }
            if isPlain { add(.deleted, to: showing, of: act.item, act, isCertain: false, ledger) }
        }
        // N8: a deletion includes what was before, for one who does not hear of deletions as well.
        for index in dues.indices
        where dues[index].subitem == act.item && isRelated(dues[index].party, act.party) {
            dues[index].isCertain = false
        }
        // What appeared in the same turn is not told of at all.
        for showing in ledger.showings.values {
            let isFresh = dues.contains {
                $0.presenter == showing.presenter.id && $0.subitem == act.item && $0.what == .appeared
                    && isSameProgram($0.party, act.party)
            }
            guard isFresh else { continue }
            for index in dues.indices
            where dues[index].presenter == showing.presenter.id && dues[index].subitem == act.item {
                dues[index].isCertain = false
            }
            tellAbove(
                act, .deleted, isCertain: false,
                except: Set(ledger.showings.keys.filter { $0 != showing.presenter.id }), ledger)
        }
        let fresh = dues.filter {
            $0.subitem == act.item && $0.what == .appeared && isSameProgram($0.party, act.party)
        }
        tellAbove(act, .deleted, isCertain: isCertain, except: Set(fresh.map(\.presenter)), ledger)
    }

    /// N2, N7.
    private mutating func moved(
        _ item: ItemID, _ move: Move, _ party: Party, _ claim: ClaimID?, _ ledger: Ledger
    ) {
        let act = Act(item: item, place: move.to, claim: claim, party: party)
        for showing in ledger.showings.values {
            guard let shown = showing.item, showing.implements(.didMove) else { continue }
            if shown == item, showing.place == move.to {
                add(.moved, to: showing, of: nil, act, isCertain: true, ledger)
            } else if shown != item, ledger.above(shown, showing.place).contains(item) {
                add(.moved, to: showing, of: nil, act, isCertain: true, ledger)
            }
        }
        // The ledger knows the directory at its new place only.
        var old = Set<ItemID>()
        if let directory = move.from.directory {
            old = Set([directory] + ledger.above(directory, Place()))
        }
        for (id, showing) in ledger.showings {
            guard let shown = showing.item, old.contains(shown) else { continue }
            let isPackage = ledger.isPackage(shown)
            if showing.implements(.subitemDidMove) {
                add(.moved, to: showing, of: item, act, isCertain: true, ledger)
            } else if isPackage, showing.implements(.didChange) {
                add(.changed, to: showing, of: nil, act, isCertain: true, ledger)
            }
            _ = id
        }
        let above = Set(ledger.showings.filter { $1.item.map(old.contains) ?? false }.keys)
        tellAbove(act, .appeared, except: above, ledger)
    }

    /// What was due of one item may be told of the other, or not at all.
    private mutating func becomes(_ incoming: ItemID, _ document: ItemID) {
        for due in dues where due.subitem == incoming || due.subitem == document {
            for item in [incoming, document] {
                var copy = due
                (copy.subitem, copy.isCertain) = (item, false)
                dues.append(copy)
            }
        }
        for index in dues.indices where dues[index].subitem == incoming || dues[index].subitem == document {
            dues[index].isCertain = false
        }
    }

    mutating func see(_ effect: Effect, of event: Event, _ ledger: Ledger, _ report: inout Report) {
        switch effect {
        case .ask(let question): if began[question.turn] == nil { began[question.turn] = ledger.now }
        case .tell(let notice): check(notice, ledger, &report)
        case .suspend(let id, _): noteSuspension(id, ledger)
        default: break
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

    func isSameProgram(_ one: Party, _ other: Party) -> Bool { Ledger.areOneProgram(one, other) }

    mutating func rest(after event: Event, _ ledger: Ledger, _ report: inout Report) {
        guard ledger.isQuiet else { return }
        for due in dues where due.isCertain {
            report.blame("\(due.presenter) was never told: \(Self.text(due))")
        }
        (dues, debtors, toldStamps, began) = ([], [], [:], [:])
    }

    static func text(_ due: Due) -> String {
        "\(due.subitem.map { "\($0) " } ?? "")\(due.what) by \(Command.text(of: due.party))"
    }
}

/// What is told, against what is due.
extension NoticeChecker {
    private mutating func check(_ notice: Notice, _ ledger: Ledger, _ report: inout Report) {
        guard let showing = ledger.showings[notice.presenter] else { return }
        let party = notice.cause.party
        let mine = dues.indices.filter { dues[$0].presenter == notice.presenter }
        if notice.kind == .reacquire {
            // Reads and writes have turns of their own.
            guard notice.cause.access.isWrite else { return }
            // One that has lasted `hold` takes nobody in any more, and what happens then is told in another.
            guard let began = began[notice.turn], ledger.now < began + ledger.bounds.hold else { return }
            for index in mine
            where dues[index].isCertain && dues[index].party == party && dues[index].number < ledger.number {
                report.blame("\(notice.presenter) is let in before it is told: \(Self.text(dues[index]))")
            }
            return
        }
        if ledger.isOwn(party, showing) {
            report.blame("\(notice.presenter) is told of its own \(notice.kind.rawValue)")
        }
        let subject = mine.filter { dues[$0].subitem == notice.subitem?.item }
        let kinds = Self.kinds(notice.kind)
        let related = subject.filter { isRelated(dues[$0].party, party) }
        if !related.contains(where: { kinds.contains(dues[$0].what) }) {
            return report.blame(
                "\(notice.presenter) is told \(notice.kind.rawValue) "
                    + "\(notice.subitem.map { "\($0.item) " } ?? "")by \(Command.text(of: party)), which did not happen"
            )
        }
        checkMerging(notice, related.map { dues[$0] }, ledger, &report)
        var gone: Set<Int> = []
        let isOld =
            hasLasted(related.map { dues[$0] }, party, ledger)
            || began[notice.turn].map { $0 + ledger.bounds.hold <= ledger.now } ?? false
        // An appearance and a deletion include the rest.
        let isBack =
            related.contains { dues[$0].what == .deleted } && related.contains { dues[$0].what == .appeared }
        let isAll =
            isBack || notice.kind == .subitemDidAppear
            || (notice.kind == .subitemDidChange && notice.cause.access.isDeletion)
        for index in related where isAll || kinds.contains(dues[index].what) {
            // A relative's may have been told with it, or have a turn of its own; and of a program that has been at
            // it for `hold` there are several.
            // What happened just now may belong in the next turn.
            // What may be told is told apart from what must be, if it is.
            let isMatched = dues[index].isCertain || !related.contains { dues[$0].isCertain }
            if dues[index].party == party, dues[index].number < ledger.number, !isOld, isMatched {
                gone.insert(index)
            } else {
                dues[index].isCertain = false
            }
        }
        dues = dues.indices.filter { !gone.contains($0) }.map { dues[$0] }
    }

    /// Whether a program has been at it for so long that it may have several turns.
    private func hasLasted(_ dues: [Due], _ party: Party, _ ledger: Ledger) -> Bool {
        let isOld = { (moment: Instant) in moment + ledger.bounds.hold <= ledger.now }
        return dues.contains { isOld($0.moment) }
            || recent.values.contains { isOld($0.arrived) && isRelated($0.party ?? .nobody, party) }
    }

    /// N8: of all that happened to one thing in a turn one notice is chosen.
    private func checkMerging(
        _ notice: Notice, _ merged: [Due], _ ledger: Ledger, _ report: inout Report
    ) {
        if hasLasted(merged, notice.cause.party, ledger) { return }
        // What was deleted and came back in one turn has changed.
        let hasReturned =
            merged.contains { $0.what == .deleted } && merged.contains { $0.what == .appeared }
        guard notice.subitem != nil, !hasReturned,
            merged.allSatisfy({ $0.isCertain && $0.party == notice.cause.party })
        else { return }
        let wrong =
            if merged.contains(where: { $0.what == .deleted }) {
                notice.kind != .subitemDidChange || !notice.cause.access.isDeletion
            } else if merged.contains(where: { $0.what == .appeared }) {
                notice.kind != .subitemDidAppear
            } else {
                false
            }
        if wrong {
            report.blame(
                "\(notice.presenter) is told \(notice.kind.rawValue) after \(merged.map(Self.text))")
        }
    }

    private static func kinds(_ notice: PresenterNotice) -> Set<What> {
        switch notice {
        case .didMove, .subitemDidMove: [.moved]
        case .didChange: [.changed]
        case .subitemDidAppear: [.appeared]
        case .subitemDidChange: [.changed, .deleted]
        case .reacquire: []
        }
    }

    /// Whether two parties may be in one turn: one program, or relatives of one.
    func isRelated(_ one: Party, _ other: Party) -> Bool {
        if isSameProgram(one, other) { return true }
        let line = Set(one.ancestors + [one.process].compactMap { $0 })
        return !line.isDisjoint(with: other.ancestors + [other.process].compactMap { $0 })
    }
}
