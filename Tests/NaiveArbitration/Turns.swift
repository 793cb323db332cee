// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How turns end (N3, N5, N8).
extension NaiveArbiter {
    /// A turn that nobody is left in and that has nothing to tell is over at once.
    mutating func leaveTurns(_ index: Int, isOver: Bool = true) {
        let left = claims[index].turns
        claims[index].turns = []
        (claims[index].wants, claims[index].goneOver) = ([], [])
        for id in left { forgetWants(of: id) }
        for id in left where members(of: id).isEmpty {
            guard let turn = turns.first(where: { $0.id == id }), !isOwing(turn) else { continue }
            if !turn.hasAnythingToSay {
                drop(id)
            } else if isOver, claims[index].isOfSocket, claims[index].suspension == nil {
                end(id)
            } else {
                trail(id)
            }
        }
    }

    /// P3: what nobody waits for any more.
    mutating func forgetWants(of id: TurnID) {
        let isWanted = claims.filter { !$0.isHeld }.flatMap(\.wants).filter { $0.turn == id }.map(\.ask)
        change(id) { turn in
            let wanted = isWanted + turn.owed.map(\.ask)
            turn.order.removeAll { !wanted.contains($0) }
            for ask in turn.causes.keys where !wanted.contains(ask) { turn.causes[ask] = nil }
            for want in turn.owed where !isWanted.contains(want.ask) { turn.causes[want.ask] = want.cause }
        }
    }

    /// Whether somebody is still to be asked, or to answer, what no claim waits for.
    func isOwing(_ turn: NaiveTurn) -> Bool {
        turn.owed.contains { want in
            !turn.asked.contains(want.ask)
                || questions.contains {
                    $0.turn == turn.id && $0.request == want.ask.request && $0.subitem == want.ask.subitem
                }
        }
    }

    mutating func trail(_ id: TurnID) {
        // N10.
        change(id) { [now, bounds] turn in
            turn.end = now + (turn.hasSteps ? max(bounds.steps, bounds.trailing) : bounds.trailing)
        }
    }

    /// What was owed to nobody has been asked and answered.
    mutating func leaveIfEmpty(_ id: TurnID) {
        guard let turn = turns.first(where: { $0.id == id }) else { return }
        if !questions.contains(where: { $0.turn == id }) {
            change(id) { $0.owed = [] }
            if members(of: id).isEmpty, turn.end == nil { trail(id) }
        }
    }

    /// N5.
    mutating func endOthers(
        of presenter: PresenterID, besides party: Party,
        where isConcerned: (NaiveTurn) -> Bool = { _ in true }
    ) {
        let others = turns.filter { turn in
            turn.presenter == presenter && turn.end != nil && !turn.program.isExempt(from: party)
                && isConcerned(turn)
        }
        for turn in others { end(turn.id) }
    }

    /// N3.
    mutating func end(_ id: TurnID) {
        guard let turn = turns.first(where: { $0.id == id }) else { return }
        drop(id)
        guard let presenter = presenters.first(where: { $0.id == turn.presenter }) else { return }
        if turn.hasAskedToRelinquish, presenter.implements(.reacquire) {
            tellOthers(besides: turn, presenter)
        }
        effects += notices(at: turn, presenter).map { .tell($0) }
    }

    /// N3: what the program did in turns that asked nobody to relinquish.
    private mutating func tellOthers(besides turn: NaiveTurn, _ presenter: NaivePresenter) {
        for other in turns where other.presenter == turn.presenter && !other.hasAskedToRelinquish {
            guard other.program.isExempt(from: turn.program) else { continue }
            effects += notices(at: other, presenter).map { .tell($0) }
            if other.end != nil {
                drop(other.id)
            } else {
                change(other.id) {
                    ($0.moves, $0.changed, $0.gone) = ([], nil, nil)
                    $0.settle()
                }
            }
        }
    }

    /// N5: what can be told of a turn that goes on; what was deleted may be there again.
    mutating func tellNow(_ id: TurnID) {
        guard let turn = turns.first(where: { $0.id == id }), turn.gone == nil,
            let presenter = presenters.first(where: { $0.id == turn.presenter })
        else { return }
        let gone = turn.outcomes.gone
        effects += notices(at: turn, presenter, holdingBack: gone).filter { $0.kind != .reacquire }.map {
            .tell($0)
        }
        change(id) {
            ($0.moves, $0.changed) = ([], nil)
            $0.settle(but: gone)
        }
    }

    /// Without a word.
    mutating func drop(_ id: TurnID) {
        turns.removeAll { $0.id == id }
        for index in claims.indices {
            claims[index].turns.removeAll { $0 == id }
            claims[index].wants.removeAll { $0.turn == id }
        }
    }

    func notices(
        at turn: NaiveTurn, _ presenter: NaivePresenter, holdingBack heldBack: [NaiveName] = []
    ) -> [Notice] {
        var notices: [Notice] = []
        let news = turn.outcomes.news.filter { !heldBack.contains($0.name) }
        let isGone = turn.gone != nil || news.contains { $0.item == presenter.item && $0.isEnd }
        if let cause = turn.moved, !isGone, presenter.implements(.didMove) {
            notices.append(Notice(.didMove, to: turn.presenter, in: turn.id, cause))
        }
        // N9.
        let isAccommodated =
            !turn.isRefused && !turn.isForfeited
            && turn.asked.contains { $0.request == .accommodateDeletion }
        var standIn: Cause?
        let items = itemNotices(news, turn, presenter, isAccommodated, &standIn)
        let changed = turn.gone == nil ? turn.changed ?? standIn : isAccommodated ? nil : turn.gone
        if let changed, presenter.implements(.didChange) {
            notices.append(Notice(.didChange, to: turn.presenter, in: turn.id, changed))
        }
        notices += items
        if turn.hasAskedToRelinquish, presenter.implements(.reacquire) {
            notices.append(Notice(.reacquire, to: turn.presenter, in: turn.id, turn.cause))
        }
        return notices
    }

    /// N6; a package that implements nothing better is told that it changed.
    func itemNotices(
        _ news: [NaiveNews], _ turn: NaiveTurn, _ presenter: NaivePresenter, _ isAccommodated: Bool,
        _ standIn: inout Cause?
    ) -> [Notice] {
        var notices: [Notice] = []
        for one in news {
            if one.item == presenter.item, one.isEnd, isAccommodated { continue }
            if presenter.implements(one.kind) {
                let subitem = Notice.Subitem(one.item, at: one.place, from: one.former)
                notices.append(Notice(one.kind, of: subitem, to: turn.presenter, in: turn.id, one.cause))
            } else if let item = presenter.item, isPackage(item) {
                standIn = one.cause
            }
        }
        return notices
    }
}
