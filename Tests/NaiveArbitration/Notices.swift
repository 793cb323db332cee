// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Records changes, and sends notices of them.
extension NaiveArbiter {
    enum NaiveItemEvent {
        case moved(ItemID, Move)
        case changed
        case gone
        case below(NaiveNameEvent)
    }

    /// N1, N4, N6: records a change of an item for presenters of the item and of the directories above it.
    mutating func noteChange(
        _ item: ItemID, _ place: Place, _ cause: Cause, _ claim: ClaimID?, _ stamp: UInt64?,
        isOngoing: Bool = false
    ) {
        if let index = claim.flatMap({ index(of: $0) }), let stamp, claims[index].reportedStamp == stamp {
            return
        }
        let shown = [item] + ancestors(of: item, at: place).filter { isPackage($0) }
        for index in presenters.indices
        where presenters[index].item.map(shown.contains) ?? false && !presenters[index].isMuted {
            if isSaving(presenters[index], cause.party, claim) { presenters[index].lastSaved = now }
        }
        // P12: a grant lists the presenters that did not agree. A change under this claim marks the changed item for each of
        // them, as written without consent.
        if let claim = claim.flatMap({ index(of: $0) }) {
            for index in presenters.indices
            where claims[claim].overriddenPresenters.contains(presenters[index].id) {
                presenters[index].unaskedWrites.insert(item)
            }
        }
        noteMissed(above: ancestors(of: item, at: place), by: cause.party)
        noteMissed(of: item, by: cause.party)
        let all = [item] + ancestors(of: item, at: place)
        for index in presenters.indices where presenters[index].item.map(all.contains) ?? false {
            let isShown = presenters[index].item == item && !presenters[index].isMuted
            guard isShown || presenters[index].item != item && isTold(presenters[index]) else { continue }
            // P12: a presenter's own change of an item removes the mark, which means that others wrote the item without
            // consent.
            if isItsOwn(presenters[index], cause.party, claim) {
                presenters[index].unaskedWrites.remove(item)
            }
        }
        for presenter in presenters {
            guard let shown = presenter.item, shown != item || !presenter.isMuted else { continue }
            if shown == item, !isPlain(item) {
                note(.changed, to: presenter, cause, claim, isOngoing: isOngoing)
            } else if shown == item || ancestors(of: item, at: place).contains(shown) && isTold(presenter) {
                let itemEvent = NaiveItemEvent.below(.changed(item, place, cause))
                note(itemEvent, to: presenter, cause, claim, isOngoing: isOngoing)
            }
        }
    }

    /// N12: records a change by a program that has not finished writing. Presenters get the notice now, and not at the end of
    /// an access session.
    mutating func noteWriting(
        _ item: ItemID, _ place: Place, _ cause: Cause, _ claim: ClaimID?, _ stamp: UInt64
    ) {
        noteChange(item, place, cause, claim, nil, isOngoing: true)
        if let index = claim.flatMap({ index(of: $0) }) { claims[index].reportedStamp = stamp }
    }

    /// N6: records the creation of an item for presenters of the item and of the directories above it.
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

    /// N16: sends the notice of a version to presenters of the item and of the directories above it.
    mutating func noteVersion(_ change: VersionChange, _ item: ItemID, _ place: Place, _ cause: Cause) {
        noteMissed(above: ancestors(of: item, at: place), by: .nobody)
        noteMissed(of: item, by: .nobody)
        for presenter in presenters.sorted(by: { $0.id < $1.id }) {
            guard let shown = presenter.item else { continue }
            let isShown = shown == item
            let isHeard =
                isShown
                ? !presenter.isMuted
                : ancestors(of: item, at: place).contains(shown) && isTold(presenter)
            let kind = change.notice(ofSubitem: !isShown)
            guard isHeard, presenter.implements(kind) else { continue }
            let subitem = isShown ? nil : Notice.Subitem(item, at: place)
            effects.append(
                .tell(
                    Notice(
                        kind, of: subitem, to: presenter.id, in: newTurn(), cause, version: change.version)))
        }
    }

    /// N9: withdraws the notice of a deletion, because the item exists again.
    mutating func takeBackDeletion(of item: ItemID, to presenter: PresenterID) {
        for accessSession in accessSessions where accessSession.presenter == presenter {
            change(accessSession.id) { accessSession in
                accessSession.gone = nil
                accessSession.keep(
                    accessSession.outcomes.all.filter { $0.before != item || $0.holder != nil })
            }
        }
    }

    /// N6, N9, P19: records the deletion of a name for presenters of the name and of the directories above it.
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
            if isItsName || isAbove { presenters[index].unaskedWrites.remove(item) }
        }
        let above = presenters.filter {
            $0.item.map(ancestors(of: item, at: place).contains) ?? false && isTold($0)
        }
        reportNameEvents(inside: item, to: above)
        for presenter in presenters {
            guard let shown = presenter.item else { continue }
            if shown == item {
                guard presenter.place.isSameName(as: place), !presenter.isMuted else { continue }
                let itemEvent: NaiveItemEvent = isPlain(item) ? .below(.deleted(item, place, cause)) : .gone
                note(itemEvent, to: presenter, cause, claim)
            } else if ancestors(of: item, at: place).contains(shown), isTold(presenter) {
                note(.below(.deleted(item, place, cause)), to: presenter, cause, claim)
            }
        }
    }

    /// N13: before a directory is deleted or moved out of sight, sends the notices of all names inside the directory.
    mutating func reportNameEvents(
        inside directory: ItemID, but taken: NaiveName? = nil, to presenters: [NaivePresenter]
    ) {
        guard directories[directory] != nil else { return }
        let isInside = { (self: Self, one: ItemID?) in
            guard let one else { return false }
            return one == directory || self.ancestors(of: one, at: Place()).contains(directory)
        }
        for presenter in presenters {
            for accessSession in accessSessions where accessSession.presenter == presenter.id {
                let told = accessSession.outcomes.notices.filter { one in
                    let isConcerned =
                        isInside(self, one.name.directory) || isInside(self, one.former?.directory)
                    return isConcerned && one.name != taken
                }
                if !told.isEmpty { tell(told, inMidstOf: accessSession, presenter) }
                guard let rest = accessSessions.first(where: { $0.id == accessSession.id }) else { continue }
                let left = rest.outcomes.all.filter { !isInside(self, $0.name.directory) }
                change(accessSession.id) { $0.keep(left) }
            }
        }
    }

    /// N12: sends an access session's notices about the written names before the session ends.
    private mutating func reportWritten(
        _ names: [NaiveName], _ id: AccessSessionID, _ presenter: NaivePresenter
    ) {
        guard let accessSession = accessSessions.first(where: { $0.id == id }), accessSession.gone == nil
        else { return }
        tell(
            accessSession.outcomes.notices.filter { names.contains($0.name) }, inMidstOf: accessSession,
            presenter)
    }

    /// N3: sends some notices of an access session before the session ends. The notices of the presented item's own move and
    /// change come first.
    private mutating func tell(
        _ told: [NaiveNotice], inMidstOf accessSession: NaiveAccessSession, _ presenter: NaivePresenter
    ) {
        change(accessSession.id) { accessSession in
            accessSession.keep(
                accessSession.outcomes.all.filter { outcome in
                    !told.contains { one in
                        let former = one.former.map { NaiveName($0, one.item) }
                        return one.name == outcome.name || former == outcome.name
                    }
                })
        }
        var standIn: Cause?
        let items = itemNotices(told, accessSession, presenter, false, &standIn)
        if accessSession.gone == nil {
            let own = [
                (PresenterNotice.didMove, accessSession.moved),
                (.didChange, accessSession.changed ?? standIn),
            ]
            for case (let kind, let cause?) in own where presenter.implements(kind) {
                effects.append(.tell(Notice(kind, to: presenter.id, in: accessSession.id, cause)))
            }
            change(accessSession.id) { ($0.moves, $0.changed) = ([], nil) }
        }
        effects += items.map { .tell($0) }
    }

    /// P2: reports a deletion that was treated as a step of a save until now, and asks the presenters to agree to the deletion.
    mutating func lose(_ item: ItemID, _ place: Place, _ party: Party) {
        let name = NaiveName(place, item)
        let untold = presenters.map(\.id).filter { isUnreported(name, to: $0) }
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
                ? NaiveQuestionKind(request: .accommodateSubitemDeletion, subitem: item)
                : NaiveQuestionKind(request: .accommodateDeletion, subitem: nil)
            guard presenter.implements(ask.request) else { continue }
            // P26: a presenter of a directory is not asked about a new name in it before it was told of this name.
            if isAbove, untold.contains(presenter.id), isUnreported(name, to: presenter.id) { continue }
            if isExcused(party, presenter) {
                excuse(party, presenter.id)
                continue
            }
            guard let accessSession = accessSession(of: presenter.id, cause, true, isOfSocket: false) else {
                continue
            }
            change(accessSession) { accessSession in
                accessSession.end = nil
                accessSession.cause = cause
                accessSession.owed.append(
                    NaivePendingQuestion(
                        accessSession: accessSession.id, ask: ask, cause: cause, isForUnmodifiedRead: false))
                if accessSession.causes[ask] == nil {
                    accessSession.causes[ask] = cause
                    accessSession.order.append(ask)
                }
            }
            advanceAccessSessions()
            leaveIfEmpty(accessSession)
        }
    }

    /// P26: whether a presenter has not yet been told that the item has the name.
    func isUnreported(_ name: NaiveName, to presenter: PresenterID) -> Bool {
        accessSessions.contains { $0.presenter == presenter && $0.isUnreported(name) }
    }

    /// P6: whether a presenter treats a change of a party as its own change. It does so if the party works for the presenter
    /// while the presenter has not answered a question.
    ///
    /// If the party has a purpose, its claim must also have been made to answer this question.
    func isOwn(_ presenter: NaivePresenter, _ party: Party, answering: QuestionID?) -> Bool {
        if presenter.isOwn(party) { return true }
        let debts = questions.filter {
            $0.presenter == presenter.id && (party.purpose == nil || $0.id == answering)
        }
        return presenter.isWorkedForBy(party) && !debts.isEmpty
    }

    /// P9: whether a change belongs to a save that the presenter was asked to make.
    private func isSaving(_ presenter: NaivePresenter, _ party: Party, _ claim: ClaimID?) -> Bool {
        guard isItsOwn(presenter, party, claim) else { return false }
        if questions.contains(where: { $0.presenter == presenter.id && $0.request == .save }) { return true }
        return presenter.lastAskedToSave.map { now < $0 + bounds.save } ?? false
    }

    /// P5, P6: whether a presenter treats a change as its own change.
    ///
    /// If the change belongs to a claim that has already chosen its presenters, the result is the same as at that choice.
    func isItsOwn(_ presenter: NaivePresenter, _ party: Party, _ claim: ClaimID?) -> Bool {
        guard let index = claim.flatMap({ index(of: $0) }), claims[index].hasConsulted else {
            let answering = claim.flatMap { index(of: $0) }.flatMap { claims[$0].request.answering }
            return isOwn(presenter, party, answering: answering)
        }
        return presenter.isOwn(party) || claims[index].ownOf.contains(presenter.id)
    }

    mutating func note(
        _ itemEvent: NaiveItemEvent, to presenter: NaivePresenter, _ cause: Cause, _ claim: ClaimID?,
        isOngoing: Bool = false
    ) {
        // P24: if a presenter implements no notice of changes, it is outdated after another program's write, until its own
        // program reads or writes the item.
        let (isOwn, hears) = (
            isItsOwn(presenter, cause.party, claim),
            presenter.implements(.didChange) || presenter.implements(.subitemDidChange)
        )
        if cause.access.changesContents, isOwn || !hears,
            let index = presenters.firstIndex(where: { $0.id == presenter.id })
        {
            presenters[index].isOutdated = !isOwn
        }
        if isOwn { return know(itemEvent, presenter) }
        let names = names(of: itemEvent)
        var isDirectoryMoved = false
        if case .below(.moved(let move)) = itemEvent { isDirectoryMoved = move.isOfDirectory }
        endOthers(of: presenter.id, besides: cause.party) { accessSession in
            !isDirectoryMoved
                && (accessSession.hasAskedToRelinquish || accessSession.hasItemEvents
                    || accessSession.knows(names))
        }
        guard let id = sessionOfEvent(presenter.id, cause, claim) else { return }
        tellFirst(names, besides: id, to: presenter, isForgotten: isDirectoryMoved)
        change(id) { accessSession in
            accessSession.cause = cause
            switch itemEvent {
            case .moved(let item, let move): accessSession.noteMove(item, move, cause)
            case .changed: accessSession.changed = cause
            case .gone: accessSession.gone = cause
            case .below(let nameEvent): accessSession.note(nameEvent)
            }
        }
        tellAtOnce(id, presenter, itemEvent)
        // N12: if the program goes on writing, its change is reported at once, and not only at the end of the access
        // session.
        if isOngoing { reportWritten(names, id, presenter) }
        if members(of: id).isEmpty, accessSessions.contains(where: { $0.id == id && !isOwing($0) }) {
            trail(id)
        }
    }

    private func names(of itemEvent: NaiveItemEvent) -> [NaiveName] {
        guard case .below(let nameEvent) = itemEvent else { return [] }
        switch nameEvent {
        case .changed(let item, let place, _), .made(let item, let place, _),
            .deleted(let item, let place, _):
            return [NaiveName(place, item)]
        case .moved(let move):
            return [
                NaiveName(move.move.from, move.item),
                NaiveName(move.move.to, move.move.replacedDocument ?? move.item),
            ]
        }
    }

    /// N5: after a presenter's own change of a name, the presenter's access sessions forget the earlier events of this name.
    /// Only changes of contents by other programs are not forgotten.
    private mutating func know(_ itemEvent: NaiveItemEvent, _ presenter: NaivePresenter) {
        guard case .below(let nameEvent) = itemEvent else { return }
        switch nameEvent {
        case .changed: return
        case .made(let item, _, _), .deleted(let item, _, _): if item == presenter.item { return }
        case .moved: break
        }
        let names = names(of: itemEvent)
        for accessSession in accessSessions where accessSession.presenter == presenter.id {
            let all = accessSession.outcomes.all
            let left = all.filter { outcome in
                if case .moved(let move) = nameEvent, move.move.isSecondHalf, names[0] != names[1],
                    outcome.name == names[0],
                    let now = outcome.now, now != move.item
                {
                    return true
                }
                return !names.contains(outcome.name)
            }
            if left.count == all.count { continue }
            change(accessSession.id) { $0.keep(left) }
            guard case .moved(let move) = nameEvent, !move.isOfDirectory, move.isToInside,
                move.move.replacedDocument == nil,
                let from = all.first(where: { $0.name == NaiveName(move.move.from, move.item) }),
                let now = from.now, now == move.item || !move.move.isSecondHalf, let cause = from.latest
            else { continue }
            change(accessSession.id) { $0.note(.changed(move.item, move.move.to, cause)) }
        }
    }

    /// N5: makes the presenter's other access sessions send their notices of these names before this event. If a directory
    /// moved, the sessions drop their notices of the directory's two names.
    private mutating func tellFirst(
        _ names: [NaiveName], besides own: AccessSessionID?, to presenter: NaivePresenter, isForgotten: Bool
    ) {
        for accessSession in accessSessions
        where accessSession.presenter == presenter.id && accessSession.id != own {
            if !isForgotten, accessSession.knows(names) { tellAll(accessSession.id, presenter) }
            change(accessSession.id) { accessSession in
                accessSession.keep(accessSession.outcomes.all.filter { !names.contains($0.name) })
            }
        }
    }

    private mutating func tellAll(_ id: AccessSessionID, _ presenter: NaivePresenter) {
        guard let accessSession = accessSessions.first(where: { $0.id == id }) else { return }
        effects += notices(at: accessSession, presenter).filter { $0.kind != .reacquire }.map { .tell($0) }
        change(id) {
            ($0.moves, $0.changed, $0.gone) = ([], nil, nil)
            $0.discardReported()
        }
    }

    private mutating func sessionOfEvent(_ presenter: PresenterID, _ cause: Cause, _ claim: ClaimID?)
        -> AccessSessionID?
    {
        if let index = claim.flatMap({ index(of: $0) }) {
            let own = accessSessions.first {
                $0.presenter == presenter && $0.isWriting && claims[index].accessSessions.contains($0.id)
            }
            if let own { return own.id }
        }
        return accessSession(of: presenter, cause, true, isOfSocket: false)
    }

    /// N7, N8: makes an access session send all its notices at once, after a directory was moved or when the session has too
    /// many names.
    private mutating func tellAtOnce(
        _ id: AccessSessionID, _ presenter: NaivePresenter, _ itemEvent: NaiveItemEvent
    ) {
        var isDirectoryMoved = false
        if case .below(.moved(let move)) = itemEvent { isDirectoryMoved = move.isOfDirectory }
        // N8: the more presenters there are, the fewer unsent names each access session may have.
        let most = max(4, min(256, 32_768 / max(1, presenters.count)))
        guard let accessSession = accessSessions.first(where: { $0.id == id }),
            isDirectoryMoved
                || accessSession.nameEvents.count + accessSession.known.count >= most
                    && accessSession.outcomes.all.count >= most
        else { return }
        tellAll(id, presenter)
    }
}

extension NaiveAccessSession {
    /// N11: records a move of the item. If the item is now back at its former name, it counts as not moved.
    mutating func noteMove(_ item: ItemID, _ move: Move, _ cause: Cause) {
        let former = moves.first { $0.item == item }?.former
        moves = moves.filter { $0.item != item }
        if let former, former == move.to { return }
        moves.append((item, former ?? move.from, cause))
    }
}
