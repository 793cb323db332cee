// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What presenters hear of changes.
extension NaiveArbiter {
    enum News {
        case moved
        case changed
        case gone
        case subitem(NaiveNews.Kind, ItemID, Place, from: Place?)
    }

    /// N1, N4, N6.
    mutating func noteChange(
        _ item: ItemID, _ place: Place, _ cause: Cause, _ claim: ClaimID?, _ stamp: UInt64?
    ) {
        if let index = claim.flatMap({ index(of: $0) }), let stamp, claims[index].toldStamp == stamp {
            return
        }
        let shown = [item] + ancestors(of: item, at: place).filter { isPackage($0) }
        for index in presenters.indices where presenters[index].item.map(shown.contains) ?? false {
            if isSaving(presenters[index], cause.party, claim) { presenters[index].lastSaved = now }
        }
        // P12.
        if let claim = claim.flatMap({ index(of: $0) }) {
            for index in presenters.indices where claims[claim].goneOver.contains(presenters[index].id) {
                presenters[index].passedOver.insert(item)
            }
        }
        let all = [item] + ancestors(of: item, at: place)
        for index in presenters.indices where presenters[index].item.map(all.contains) ?? false {
            // P12.
            if isItsOwn(presenters[index], cause.party, claim) { presenters[index].passedOver.remove(item) }
        }
        for presenter in presenters {
            guard let shown = presenter.item else { continue }
            if shown == item, !isPlain(item) {
                note(.changed, to: presenter, cause, claim)
            } else if shown == item || ancestors(of: item, at: place).contains(shown) {
                note(.subitem(.changed, item, place, from: nil), to: presenter, cause, claim)
            }
        }
    }

    /// N6.
    mutating func noteCreation(_ item: ItemID, _ place: Place, _ party: Party, _ claim: ClaimID?) {
        let cause = Cause(party, .write(.forReplacing))
        for presenter in presenters {
            guard let shown = presenter.item else { continue }
            if shown == item {
                if presenter.place.isSameName(as: place) { takeBackDeletion(of: item, to: presenter.id) }
                note(
                    isPlain(item) ? .subitem(.changed, item, place, from: nil) : .changed, to: presenter,
                    cause, claim)
            } else if ancestors(of: item, at: place).contains(shown) {
                note(.subitem(.appeared, item, place, from: nil), to: presenter, cause, claim)
            }
        }
    }

    /// N9.
    mutating func takeBackDeletion(of item: ItemID, to presenter: PresenterID) {
        for turn in turns where turn.presenter == presenter {
            change(turn.id) { turn in
                turn.gone = nil
                turn.subitems.removeAll { $0.item == item && $0.kinds == [.deleted] }
            }
        }
    }

    /// N6, N9, P19.
    mutating func noteDeletion(_ item: ItemID, _ place: Place, _ party: Party, _ claim: ClaimID?) {
        let cause = Cause(party, .write(.forDeleting))
        for index in presenters.indices {
            let isItsName = presenters[index].item == item && presenters[index].place.isSameName(as: place)
            let isAbove = presenters[index].item.map(ancestors(of: item, at: place).contains) ?? false
            if isItsName || isAbove { presenters[index].passedOver.remove(item) }
        }
        for presenter in presenters {
            guard let shown = presenter.item else { continue }
            if shown == item {
                guard presenter.place.isSameName(as: place) else { continue }
                let news: News = isPlain(item) ? .subitem(.deleted, item, place, from: nil) : .gone
                note(news, to: presenter, cause, claim)
            } else if ancestors(of: item, at: place).contains(shown) {
                note(.subitem(.deleted, item, place, from: nil), to: presenter, cause, claim)
            }
        }
    }

    /// P2: a deletion that was taken for the first step of a save.
    mutating func lose(_ item: ItemID, _ place: Place, _ party: Party) {
        noteDeletion(item, place, party, nil)
        let cause = Cause(party, .write(.forDeleting))
        for presenter in presenters {
            guard let shown = presenter.item, !presenter.isSpared(party), !presenter.isDemoted
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
            if isExcused(party, presenter) {
                excuse(party, presenter.id)
                continue
            }
            endOthers(of: presenter.id, besides: party)
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
    private func isItsOwn(_ presenter: NaivePresenter, _ party: Party, _ claim: ClaimID?) -> Bool {
        guard let index = claim.flatMap({ index(of: $0) }), claims[index].isPut else {
            let answering = claim.flatMap { index(of: $0) }.flatMap { claims[$0].request.answering }
            return isOwn(presenter, party, answering: answering)
        }
        return presenter.isOwn(party) || claims[index].ownOf.contains(presenter.id)
    }

    mutating func note(_ news: News, to presenter: NaivePresenter, _ cause: Cause, _ claim: ClaimID?) {
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
        if isOwn { return }
        endOthers(of: presenter.id, besides: cause.party)
        guard let id = turnOfNews(presenter.id, cause, claim) else { return }
        change(id) { turn in
            turn.cause = cause
            switch news {
            case .moved: turn.moved = cause
            case .changed: turn.changed = cause
            case .gone: turn.gone = cause
            case .subitem(let kind, let item, let place, let former):
                turn.note(kind, item, place, from: former, cause)
            }
        }
        if members(of: id).isEmpty, turns.contains(where: { $0.id == id && !isOwing($0) }) { trail(id) }
        tellIfMany(id, presenter)
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

    /// N8.
    private mutating func tellIfMany(_ id: TurnID, _ presenter: NaivePresenter) {
        guard let turn = turns.first(where: { $0.id == id }), turn.subitems.count >= 256 else { return }
        endOthers(of: presenter.id, besides: turn.program)
        effects += notices(at: turn, presenter).filter { $0.kind != .reacquire }.map { .tell($0) }
        change(id) {
            ($0.moved, $0.changed, $0.gone) = (nil, nil, nil)
            $0.subitems = []
        }
    }
}

/// N8: each thing that happened to an item is told once.
extension NaiveTurn {
    mutating func note(
        _ kind: NaiveNews.Kind, _ item: ItemID, _ place: Place, from former: Place?, _ cause: Cause
    ) {
        guard let index = subitems.firstIndex(where: { $0.item == item }) else {
            subitems.append(
                NaiveNews(item: item, kinds: [kind], place: place, former: former, causes: [kind: cause]))
            return
        }
        var news = subitems[index]
        if kind == .moved || kind == .appeared { news.place = place }
        switch kind {
        case .deleted where news.kinds == [.deleted]: break
        case .deleted:
            news.before = news.kinds
            news.kinds = news.kinds == [.appeared] || news.kinds.isEmpty ? [] : [.deleted]
        // N8: what comes after a deletion comes besides what was before.
        case .changed where news.kinds == [.deleted]: news.before.append(.changed)
        case .moved where news.kinds == [.deleted]:
            news.kinds = news.before.contains(.changed) ? [.moved, .changed] : [.moved]
        case .appeared where news.kinds == [.deleted] && former != nil && news.before.contains(.moved):
            news.kinds = news.before.contains(.changed) ? [.moved, .changed] : [.moved]
            news.causes[.moved] = cause
        case .appeared where news.kinds == [.deleted]:
            news.kinds = news.before.contains(.moved) ? [.moved, .changed] : [.changed]
            news.causes[.changed] = cause
        case .moved where news.kinds == []: news.kinds = [.appeared]
        // N8: what was moved away and back was moved.
        case .appeared where former != nil && news.kinds.contains(.moved): news.causes[.moved] = cause
        case .appeared: news.kinds = [.appeared]
        case .moved, .changed:
            let isIncluded = [[], [.appeared], [.deleted]].contains(news.kinds)
            if !isIncluded {
                news.kinds = [.moved, .changed].filter { $0 == kind || news.kinds.contains($0) }
            }
        }
        if kind == .moved, news.former == nil { news.former = former }
        news.causes[kind] = cause
        subitems[index] = news
    }
}
