// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Relinquish and reacquire pair up, nobody is asked or told the same twice in a turn, and what happened is told
/// before the presenter is let in again (P3, N3, N8).
struct TurnChecker: Checker {
    private struct Asked: Hashable {
        let request: PresenterRequest
        let subitem: ItemID?
    }

    private struct Told: Hashable {
        let directory: ItemID?
        let link: LinkID?
        let item: ItemID?

        init(_ subitem: Notice.Subitem?) {
            (directory, link) = (subitem?.place.directory, subitem?.place.link)
            item = subitem?.place.link == nil ? subitem?.item : nil
        }
    }

    private struct Known {
        let presenter: PresenterID
        /// The event that began it.
        let number: Int
        var causes: [Cause] = []
        var asked: Set<Asked> = []
        /// What was told of each name, or of the item itself.
        var told: [PresenterNotice: Set<Told>] = [:]
        var rank = 0
        /// Told since the last time a full turn told all it had.
        var subitems = 0
        var isOver = false
        /// When something was asked in it last.
        var askedAt = Instant(nanoseconds: 0)
        /// The event in which it last told something.
        var toldAt = 0

        var isRelinquished: Bool { asked.contains { $0.request.isRelinquishment } }
    }

    private var turns: [TurnID: Known] = [:]
    /// Who was granted in which turn.
    private var members: [ClaimID: [TurnID: ItemID]] = [:]

    mutating func hear(_ event: Event, _ ledger: Ledger, _ report: inout Report) {
        if case .removed(let id) = event { turns = turns.filter { $1.presenter != id } }
    }

    mutating func see(_ effect: Effect, of event: Event, _ ledger: Ledger, _ report: inout Report) {
        switch effect {
        case .ask(let question):
            check(question, ledger, &report)
            beginAnew(question.presenter)
        case .tell(let notice): check(notice, ledger, &report)
        // Who went ahead was not put to its presenters, maybe.
        case .grant(let id, let grant):
            if grant.basis != .proceeded, let claim = ledger.claims[id] { join(claim, ledger) }
        default: break
        }
    }

    /// N5: before a question all turns of its presenter tell what they have, and go on.
    private mutating func beginAnew(_ presenter: PresenterID) {
        for (id, turn) in turns where turn.presenter == presenter {
            var turn = turn
            (turn.rank, turn.subitems, turn.told) = (0, 0, [:])
            turns[id] = turn
        }
    }

    private func implementsAll(_ id: PresenterID, _ ledger: Ledger) -> Bool {
        guard let showing = ledger.showings[id] else { return false }
        return showing.implements(.relinquishToReader) && showing.implements(.relinquishToWriter)
    }

    private mutating func check(_ question: Question, _ ledger: Ledger, _ report: inout Report) {
        var turn = turns[question.turn] ?? Known(presenter: question.presenter, number: ledger.number)
        if turn.isOver { report.blame("\(question.id) is asked in \(question.turn), which is over") }
        if turn.presenter != question.presenter { report.blame("\(question.turn) has two presenters") }
        // A deletion may have been put to it alone.
        if question.request.isRelinquishment, turn.asked.contains(where: { $0.request == .save }),
            !turn.isRelinquished, implementsAll(question.presenter, ledger)
        {
            report.blame("\(question.id): relinquishing is not asked first in \(question.turn)")
        }
        if !turn.asked.insert(Asked(request: question.request, subitem: question.subitem)).inserted {
            report.blame("\(question.request.rawValue) is asked twice in \(question.turn)")
        }
        turn.causes.append(question.cause)
        turn.askedAt = ledger.now
        if question.request.isRelinquishment { (turn.rank, turn.told) = (0, [:]) }
        turns[question.turn] = turn
    }

    private mutating func check(_ notice: Notice, _ ledger: Ledger, _ report: inout Report) {
        var turn = turns[notice.turn] ?? Known(presenter: notice.presenter, number: ledger.number)
        guard let showing = ledger.showings[notice.presenter] else {
            return report.blame("\(notice.kind.rawValue) is told to \(notice.presenter), who is gone")
        }
        if turn.presenter != notice.presenter { report.blame("\(notice.turn) has two presenters") }
        if !showing.implements(notice.kind) {
            report.blame("\(notice.presenter) does not implement \(notice.kind.rawValue)")
        }
        if turn.isOver { report.blame("\(notice.kind.rawValue) is told after \(notice.turn) was over") }
        let rank =
            switch notice.kind {
            case .didMove: 0
            case .didChange: 1
            case .subitemDidAppear, .subitemDidChange, .subitemDidMove: 2
            case .reacquire: 3
            }
        // N3, N5, N7: one that goes on may tell what it has; then it begins anew.
        if turn.toldAt != ledger.number { (turn.rank, turn.told) = (0, [:]) }
        turn.toldAt = ledger.number
        // N13: what there is to tell of names in a directory is told before its move.
        if rank == 2, let item = notice.subitem?.item, ledger.directories[item] != nil { turn.told = [:] }
        if rank < turn.rank {
            if turn.subitems < 256 {
                report.blame("\(notice.kind.rawValue) comes too late in \(notice.turn)")
            }
            (turn.subitems, turn.told) = (0, [:])
        }
        turn.rank = rank
        if rank == 2 { turn.subitems += 1 }
        if (notice.subitem != nil) != (rank == 2) {
            report.blame("\(notice.kind.rawValue) names the wrong thing in \(notice.turn)")
        }
        let told = Told(notice.subitem)
        if !turn.told[notice.kind, default: []].insert(told).inserted {
            report.blame("\(notice.kind.rawValue) is told twice in \(notice.turn)")
        }
        // A move and a change are two things; all else includes what was before.
        if let item = notice.subitem?.item {
            let kinds = Set(turn.told.filter { $0.value.contains(told) }.keys)
            if kinds.count > 1, kinds != [.subitemDidMove, .subitemDidChange] {
                report.blame("\(notice.presenter) is told of \(item) twice in \(notice.turn)")
            }
        }
        if notice.kind == .reacquire { checkReacquire(notice, turn, ledger, &report) }
        turn.isOver = notice.kind == .reacquire
        turns[notice.turn] = turn
    }

    private func checkReacquire(
        _ notice: Notice, _ turn: Known, _ ledger: Ledger, _ report: inout Report
    ) {
        if !turn.isRelinquished { report.blame("\(notice.turn) lets in one who never relinquished") }
        for (id, items) in members {
            guard let item = items[notice.turn], let claim = ledger.claims[id], claim.suspension == nil,
                claim.parts.contains(where: { $0.item == item }),
                ledger.showings[notice.presenter]?.item == item,
                // R2: what came to the document with another file was put to that one's presenters.
                ledger.upheaval < claim.number
            else { continue }
            report.blame("\(notice.presenter) is let in while \(id) is at work")
        }
    }

    /// Notes in which turns a claim that is granted surely is.
    private mutating func join(_ claim: Ledger.Entry, _ ledger: Ledger) {
        guard let party = claim.party, claim.parts.count == 1, claim.nature != .episode else { return }
        let part = claim.parts[0]
        // N3: whoever comes when it has lasted `hold` begins another.
        if claim.arrived + ledger.bounds.hold <= ledger.now { return }
        for (id, turn) in turns where !turn.isOver && turn.isRelinquished {
            guard let showing = ledger.showings[turn.presenter], showing.item == part.item,
                showing.number < claim.number, turn.number >= claim.number, let cause = turn.causes.last,
                cause.party == party,
                cause.access == part.access, !ledger.isOwn(party, showing),
                !party.works(for: showing.party)
            else { continue }
            members[claim.id, default: [:]][id] = part.item
        }
    }

    /// N3, Y6: nobody is kept from its item for ever.
    ///
    /// Whoever comes within `hold` belongs in the turn, waits for its bound, holds for its bound, and is trailed.
    private func checkSpans(_ ledger: Ledger, _ report: inout Report) {
        let bounds = ledger.bounds
        // The file system ends name changes and episodes.
        let isChanging = ledger.claims.values.contains { $0.nature == .nameChange || $0.nature == .episode }
        if isChanging { return }
        let longest =
            bounds.hold.nanoseconds + max(bounds.wait, bounds.progress).nanoseconds
            + max(bounds.trailing, bounds.steps).nanoseconds
            + max(bounds.hold, bounds.holdAware).nanoseconds + bounds.progress.nanoseconds
        for (id, turn) in turns where turn.isRelinquished && !turn.isOver {
            guard turn.askedAt + Span(nanoseconds: longest) < ledger.now,
                ledger.showings[turn.presenter]?.implements(.reacquire) ?? false
            else { continue }
            report.blame("\(turn.presenter) has not been let in again since \(turn.askedAt), after \(id)")
        }
    }

    mutating func rest(after event: Event, _ ledger: Ledger, _ report: inout Report) {
        if event == .tick { checkSpans(ledger, &report) }
        members = members.filter { ledger.claims[$0.key] != nil }
        guard ledger.isQuiet else { return }
        for (id, turn) in turns where turn.isRelinquished && !turn.isOver {
            guard let showing = ledger.showings[turn.presenter], showing.implements(.reacquire) else {
                continue
            }
            report.blame("\(turn.presenter) was never let in again after \(id)")
        }
        turns = [:]
    }
}
