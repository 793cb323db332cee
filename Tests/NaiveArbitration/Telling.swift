// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What presenters hear of changes.
extension NaiveArbiter {
    enum News {
        case moved(ItemID, Move)
        case changed
        case gone
        case below(NaiveHappening)
    }

    /// N1, N4, N6.
    mutating func noteChange(
        _ item: ItemID, _ place: Place, _ cause: Cause, _ claim: ClaimID?, _ stamp: UInt64?,
        isGoingOn: Bool = false
    ) {
        if let index = claim.flatMap({ index(of: $0) }), let stamp, claims[index].toldStamp == stamp {
            return
        }
        let shown = [item] + ancestors(of: item, at: place).filter { isPackage($0) }
        for index in presenters.indices
        where presenters[index].item.map(shown.contains) ?? false && !presenters[index].isMuted {
            if isSaving(presenters[index], cause.party, claim) { presenters[index].lastSaved = now }
        }
        // P12.
        if let claim = claim.flatMap({ index(of: $0) }) {
            for index in presenters.indices where claims[claim].goneOver.contains(presenters[index].id) {
                presenters[index].passedOver.insert(item)
            }
        }
        noteMissed(above: ancestors(of: item, at: place), by: cause.party)
        noteMissed(of: item, by: cause.party)
        let all = [item] + ancestors(of: item, at: place)
        for index in presenters.indices where presenters[index].item.map(all.contains) ?? false {
            let isShown = presenters[index].item == item && !presenters[index].isMuted
            guard isShown || presenters[index].item != item && isTold(presenters[index]) else { continue }
            // P12.
            if isItsOwn(presenters[index], cause.party, claim) { presenters[index].passedOver.remove(item) }
        }
        for presenter in presenters {
            guard let shown = presenter.item, shown != item || !presenter.isMuted else { continue }
            if shown == item, !isPlain(item) {
                note(.changed, to: presenter, cause, claim, isGoingOn: isGoingOn)
            } else if shown == item || ancestors(of: item, at: place).contains(shown) && isTold(presenter) {
                let news = News.below(.changed(item, place, cause))
                note(news, to: presenter, cause, claim, isGoingOn: isGoingOn)
            }
        }
    }

    /// N12.
    mutating func noteWriting(
        _ item: ItemID, _ place: Place, _ cause: Cause, _ claim: ClaimID?, _ stamp: UInt64
    ) {
        noteChange(item, place, cause, claim, nil, isGoingOn: true)
        if let index = claim.flatMap({ index(of: $0) }) { claims[index].toldStamp = stamp }
    }

    /// N6.
    mutating func noteCreation(_ item: ItemID, _ place: Place, _ party: Party, _ claim: ClaimID?) {
        let cause = Cause(party, .write(.forReplacing))
        noteMissed(above: ancestors(of: item, at: place), by: cause.party)
        noteMissed(of: item, by: cause.party)
        for presenter in presenters {
            guard let shown = presenter.item else { continue }
            if shown == item {
                if presenter.place.isSameName(as: place) { takeBackDeletion(of: item, to: presenter.id) }
                if presenter.isMuted { continue }
                note(
                    isPlain(item) ? .below(.changed(item, place, cause)) : .changed, to: presenter, cause,
                    claim)
            } else if ancestors(of: item, at: place).contains(shown), isTold(presenter) {
                note(.below(.made(item, place, cause)), to: presenter, cause, claim)
            }
        }
    }

    /// N9.
    mutating func takeBackDeletion(of item: ItemID, to presenter: PresenterID) {
        for turn in turns where turn.presenter == presenter {
            change(turn.id) { turn in
                turn.gone = nil
                turn.keep(turn.outcomes.all.filter { $0.before != item || $0.holder != nil })
            }
        }
    }

    /// N6, N9, P19.
    mutating func noteDeletion(_ item: ItemID, _ place: Place, _ party: Party, _ claim: ClaimID?) {
        let cause = Cause(party, .write(.forDeleting))
        noteMissed(above: ancestors(of: item, at: place), by: cause.party)
        noteMissed(of: item, by: cause.party)
        for index in presenters.indices {
            let isItsName =
                presenters[index].item == item && !presenters[index].isMuted
                && presenters[index].place.isSameName(as: place)
            let isAbove =
                presenters[index].item.map(ancestors(of: item, at: place).contains) ?? false
                && isTold(presenters[index])
            if isItsName || isAbove { presenters[index].passedOver.remove(item) }
        }
        let above = presenters.filter {
            $0.item.map(ancestors(of: item, at: place).contains) ?? false && isTold($0)
        }
        tellNews(inside: item, to: above)
        for presenter in presenters {
            guard let shown = presenter.item else { continue }
            if shown == item {
                guard presenter.place.isSameName(as: place), !presenter.isMuted else { continue }
                let news: News = isPlain(item) ? .below(.deleted(item, place, cause)) : .gone
                note(news, to: presenter, cause, claim)
            } else if ancestors(of: item, at: place).contains(shown), isTold(presenter) {
                note(.below(.deleted(item, place, cause)), to: presenter, cause, claim)
            }
        }
    }

    /// N13.
    mutating func tellNews(
        inside directory: ItemID, but taken: NaiveName? = nil, to presenters: [NaivePresenter]
    ) {
        guard directories[directory] != nil else { return }
        let isInside = { (self: Self, one: ItemID?) in
            guard let one else { return false }
            return one == directory || self.ancestors(of: one, at: Place()).contains(directory)
        }
        for presenter in presenters {
            for turn in turns where turn.presenter == presenter.id {
                let told = turn.outcomes.news.filter { one in
                    let isConcerned =
                        isInside(self, one.name.directory) || isInside(self, one.former?.directory)
                    return isConcerned && one.name != taken
                }
                if !told.isEmpty { tell(told, inMidstOf: turn, presenter) }
                guard let rest = turns.first(where: { $0.id == turn.id }) else { continue }
                let left = rest.outcomes.all.filter { !isInside(self, $0.name.directory) }
                change(turn.id) { $0.keep(left) }
            }
        }
    }

    /// N12.
    private mutating func tellWritten(_ names: [NaiveName], _ id: TurnID, _ presenter: NaivePresenter) {
        guard let turn = turns.first(where: { $0.id == id }), turn.gone == nil else { return }
        tell(turn.outcomes.news.filter { names.contains($0.name) }, inMidstOf: turn, presenter)
    }

    /// N3: what happened to the item comes first, but for its deletion.
    private mutating func tell(_ told: [NaiveNews], inMidstOf turn: NaiveTurn, _ presenter: NaivePresenter) {
        change(turn.id) { turn in
            turn.keep(
                turn.outcomes.all.filter { outcome in
                    !told.contains { one in
                        let former = one.former.map { NaiveName($0, one.item) }
                        return one.name == outcome.name || former == outcome.name
                    }
                })
        }
        var standIn: Cause?
        let items = itemNotices(told, turn, presenter, false, &standIn)
        if turn.gone == nil {
            let own = [(PresenterNotice.didMove, turn.moved), (.didChange, turn.changed ?? standIn)]
            for case (let kind, let cause?) in own where presenter.implements(kind) {
                effects.append(.tell(Notice(kind, to: presenter.id, in: turn.id, cause)))
            }
            change(turn.id) { ($0.moves, $0.changed) = ([], nil) }
        }
        effects += items.map { .tell($0) }
    }

    /// P2: a deletion that was taken for the first step of a save.
    mutating func lose(_ item: ItemID, _ place: Place, _ party: Party) {
        let name = NaiveName(place, item)
        let untold = presenters.map(\.id).filter { isUntold(name, to: $0) }
        noteDeletion(item, place, party, nil)
        let cause = Cause(party, .write(.forDeleting))
        for presenter in presenters {
            guard let shown = presenter.item, !presenter.isSpared(party), !presenter.isDemoted,
                !presenter.isMuted
            else { continue }
            let isAbove = ancestors(of: item, at: place).contains(shown)
            let isSame = shown == item && presenter.place.isSameName(as: place)
            let isBelow =
                directories[item] != nil && ancestors(of: shown, at: presenter.place).contains(item)
            guard isAbove || isSame || isBelow else { continue }
            let ask =
                isAbove
                ? NaiveAsk(request: .accommodateSubitemDeletion, subitem: item)
                : NaiveAsk(request: .accommodateDeletion, subitem: nil)
            guard presenter.implements(ask.request) else { continue }
            // P26.
            if isAbove, untold.contains(presenter.id), isUntold(name, to: presenter.id) { continue }
            if isExcused(party, presenter) {
                excuse(party, presenter.id)
                continue
            }
            guard let turn = turn(of: presenter.id, cause, true, isOfSocket: false) else { continue }
            change(turn) { turn in
                turn.end = nil
                turn.cause = cause
                turn.owed.append(NaiveWant(turn: turn.id, ask: ask, cause: cause, isForUnmodifiedRead: false))
                if turn.causes[ask] == nil {
                    turn.causes[ask] = cause
                    turn.order.append(ask)
                }
            }
            goOnWithTurns()
            leaveIfEmpty(turn)
        }
    }

    /// P26: whether a presenter has not been told yet that something has a name.
    func isUntold(_ name: NaiveName, to presenter: PresenterID) -> Bool {
        turns.contains { $0.presenter == presenter && $0.isUntold(name) }
    }

    /// P6: what those write who work for a presenter that owes an answer is its own.
    ///
    /// With a purpose, only what they say is for the answer.
    func isOwn(_ presenter: NaivePresenter, _ party: Party, answering: QuestionID?) -> Bool {
        if presenter.isOwn(party) { return true }
        let debts = questions.filter {
            $0.presenter == presenter.id && (party.purpose == nil || $0.id == answering)
        }
        return presenter.isWorkedForBy(party) && !debts.isEmpty
    }

    /// P9: a save it makes on request.
    private func isSaving(_ presenter: NaivePresenter, _ party: Party, _ claim: ClaimID?) -> Bool {
        guard isItsOwn(presenter, party, claim) else { return false }
        if questions.contains(where: { $0.presenter == presenter.id && $0.request == .save }) { return true }
        return presenter.lastAskedToSave.map { now < $0 + bounds.save } ?? false
    }

    /// P5, P6: of an access that was put to its presenters it was known then.
    func isItsOwn(_ presenter: NaivePresenter, _ party: Party, _ claim: ClaimID?) -> Bool {
        guard let index = claim.flatMap({ index(of: $0) }), claims[index].isPut else {
            let answering = claim.flatMap { index(of: $0) }.flatMap { claims[$0].request.answering }
            return isOwn(presenter, party, answering: answering)
        }
        return presenter.isOwn(party) || claims[index].ownOf.contains(presenter.id)
    }

    mutating func note(
        _ news: News, to presenter: NaivePresenter, _ cause: Cause, _ claim: ClaimID?,
        isGoingOn: Bool = false
    ) {
        // P24.
        let (isOwn, hears) = (
            isItsOwn(presenter, cause.party, claim),
            presenter.implements(.didChange) || presenter.implements(.subitemDidChange)
        )
        if cause.access.changesContents, isOwn || !hears,
            let index = presenters.firstIndex(where: { $0.id == presenter.id })
        {
            presenters[index].isOutdated = !isOwn
        }
        if isOwn { return know(news, presenter) }
        let names = names(of: news)
        var isDirectoryMoved = false
        if case .below(.moved(let move)) = news { isDirectoryMoved = move.isOfDirectory }
        endOthers(of: presenter.id, besides: cause.party) { turn in
            !isDirectoryMoved && (turn.hasAskedToRelinquish || turn.hasOwnNews || turn.knows(names))
        }
        guard let id = turnOfNews(presenter.id, cause, claim) else { return }
        tellFirst(names, besides: id, to: presenter, isForgotten: isDirectoryMoved)
        change(id) { turn in
            turn.cause = cause
            switch news {
            case .moved(let item, let move): turn.noteMove(item, move, cause)
            case .changed: turn.changed = cause
            case .gone: turn.gone = cause
            case .below(let happening): turn.note(happening)
            }
        }
        tellAtOnce(id, presenter, news)
        // N12.
        if isGoingOn { tellWritten(names, id, presenter) }
        if members(of: id).isEmpty, turns.contains(where: { $0.id == id && !isOwing($0) }) { trail(id) }
    }

    private func names(of news: News) -> [NaiveName] {
        guard case .below(let happening) = news else { return [] }
        switch happening {
        case .changed(let item, let place, _), .made(let item, let place, _),
            .deleted(let item, let place, _):
            return [NaiveName(place, item)]
        case .moved(let move):
            return [
                NaiveName(move.move.from, move.item), NaiveName(move.move.to, move.move.over ?? move.item),
            ]
        }
    }

    /// N5: of names with which a presenter did something itself nothing is told, but for contents that it may not know.
    private mutating func know(_ news: News, _ presenter: NaivePresenter) {
        guard case .below(let happening) = news else { return }
        switch happening {
        case .changed: return
        case .made(let item, _, _), .deleted(let item, _, _): if item == presenter.item { return }
        case .moved: break
        }
        let names = names(of: news)
        for turn in turns where turn.presenter == presenter.id {
            let all = turn.outcomes.all
            let left = all.filter { outcome in
                if case .moved(let move) = happening, move.move.isSecondHalf, names[0] != names[1],
                    outcome.name == names[0],
                    let now = outcome.now, now != move.item
                {
                    return true
                }
                return !names.contains(outcome.name)
            }
            if left.count == all.count { continue }
            change(turn.id) { $0.keep(left) }
            guard case .moved(let move) = happening, !move.isOfDirectory, move.isToInside,
                move.move.over == nil,
                let from = all.first(where: { $0.name == NaiveName(move.move.from, move.item) }),
                let now = from.now, now == move.item || !move.move.isSecondHalf, let cause = from.latest
            else { continue }
            change(turn.id) { $0.note(.changed(move.item, move.move.to, cause)) }
        }
    }

    /// N5: what other turns have to tell of names; the move of a directory says it all.
    private mutating func tellFirst(
        _ names: [NaiveName], besides own: TurnID?, to presenter: NaivePresenter, isForgotten: Bool
    ) {
        for turn in turns where turn.presenter == presenter.id && turn.id != own {
            if !isForgotten, turn.knows(names) { tellAll(turn.id, presenter) }
            change(turn.id) { turn in
                turn.keep(turn.outcomes.all.filter { !names.contains($0.name) })
            }
        }
    }

    private mutating func tellAll(_ id: TurnID, _ presenter: NaivePresenter) {
        guard let turn = turns.first(where: { $0.id == id }) else { return }
        effects += notices(at: turn, presenter).filter { $0.kind != .reacquire }.map { .tell($0) }
        change(id) {
            ($0.moves, $0.changed, $0.gone) = ([], nil, nil)
            $0.settle()
        }
    }

    private mutating func turnOfNews(_ presenter: PresenterID, _ cause: Cause, _ claim: ClaimID?) -> TurnID? {
        if let index = claim.flatMap({ index(of: $0) }) {
            let own = turns.first {
                $0.presenter == presenter && $0.isWriting && claims[index].turns.contains($0.id)
            }
            if let own { return own.id }
        }
        return turn(of: presenter, cause, true, isOfSocket: false)
    }

    /// N7, N8: that a directory was moved, and what happened at many names.
    private mutating func tellAtOnce(_ id: TurnID, _ presenter: NaivePresenter, _ news: News) {
        var isDirectoryMoved = false
        if case .below(.moved(let move)) = news { isDirectoryMoved = move.isOfDirectory }
        // Turns of very many presenters know of fewer names each.
        let most = max(4, min(256, 32_768 / max(1, presenters.count)))
        guard let turn = turns.first(where: { $0.id == id }),
            isDirectoryMoved
                || turn.happenings.count + turn.known.count >= most && turn.outcomes.all.count >= most
        else { return }
        tellAll(id, presenter)
    }
}

extension NaiveTurn {
    /// N11: what is called again what it was called before was not moved.
    mutating func noteMove(_ item: ItemID, _ move: Move, _ cause: Cause) {
        let former = moves.first { $0.item == item }?.former
        moves = moves.filter { $0.item != item }
        if let former, former == move.to { return }
        moves.append((item, former ?? move.from, cause))
    }
}
