// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What presenters are told, and when.
extension Arbiter {
    /// N1: contents or attributes were written.
    mutating func noteChange(
        of item: ItemID, at place: Place, _ cause: Cause, under id: ClaimID?, stamp: UInt64,
        _ effects: inout [Effect]
    ) {
        let cause = Cause(parties[id] ?? cause.party, cause.access)
        // Told when it was suspended (N4).
        if let id, let told = claims[id]?.toldStamp, told == stamp { return }
        let isPlainDirectory = tree.isDirectory(item) && !tree.isPackage(item)
        let silent = id.flatMap { desk.inquiries[$0]?.silent } ?? []
        for (presenter, concern) in witnesses(of: item, at: place) {
            guard let record = desk.records[presenter] else { continue }
            if isOwn(cause.party, record.presenter.party) || silent.contains(presenter) {
                noteSave(by: presenter)
                continue
            }
            if id == nil, isForItsSake(cause.party, record) { continue }
            note(cause, under: id, at: record, &effects) { turn in
                // N6: a plain directory has no contents of its own.
                if concern == .item, !isPlainDirectory { return turn.changed = cause }
                turn.note(item, at: place, cause) { $0.hasChanged = true }
            }
        }
    }

    /// N6: there is a new item.
    mutating func noteCreation(
        of item: ItemID, at place: Place, by party: Party, under claim: ClaimID?, _ effects: inout [Effect]
    ) {
        let cause = Cause(party, .write(.forReplacing))
        tell(witnesses(of: item, at: place), cause, under: claim, &effects) { turn, concern in
            if concern == .item {
                // N9: it is there again.
                (turn.changed, turn.deleted) = (cause, nil)
                return
            }
            turn.note(item, at: place, cause) { news in
                // What was there, was deleted and is there again has changed.
                if news.isGone { news.hasChanged = true } else { news.hasAppeared = true }
                news.isGone = false
            }
        }
    }

    /// N2, N7: the item is called something else now.
    mutating func noteMove(
        of item: ItemID, _ move: Move, by party: Party, under claim: ClaimID?, _ effects: inout [Effect]
    ) {
        let cause = Cause(party, .write(.forMoving))
        let isKnown = move.from.directory != nil || move.to.directory != nil
        let before = isKnown ? Set(above(move.from)) : []
        let after = isKnown ? above(move.to) : []
        for id in desk.presented[item] ?? [] where desk.records[id]?.place.isSameName(as: move.to) ?? false {
            tell([(id, .item)], cause, under: claim, &effects) { turn, _ in turn.moved = cause }
        }
        var below: [(PresenterID, Concern)] = []
        forEachPresenter(below: item) { below.append(($0, .below)) }
        tell(below.sorted { $0.0 < $1.0 }, cause, under: claim, &effects) { turn, _ in turn.moved = cause }
        for directory in before.union(after).sorted() {
            let hadIt = before.contains(directory)
            tell(presenters(above: directory), cause, under: claim, &effects) { turn, _ in
                turn.note(item, at: move.to, cause) { news in
                    if hadIt { news.former = news.former ?? move.from } else { news.hasAppeared = true }
                    news.place = move.to
                }
            }
        }
    }

    /// N6, N9: the item is not there any more.
    mutating func noteDeletion(
        of item: ItemID, at place: Place, by party: Party, under claim: ClaimID?, _ effects: inout [Effect]
    ) {
        let cause = Cause(party, .write(.forDeleting))
        let concerned = witnesses(of: item, at: place).filter { id, concern in
            // P19.
            concern != .item || desk.records[id]?.place.isSameName(as: place) ?? false
        }
        tell(concerned, cause, under: claim, &effects) { turn, concern in
            if concern == .item { return turn.deleted = cause }
            turn.note(item, at: place, cause) { $0.isGone = true }
        }
    }

    /// P2: what began like a save was a deletion, and is put to presenters now.
    mutating func noteLoss(of item: ItemID, at place: Place, by party: Party, _ effects: inout [Effect]) {
        noteDeletion(of: item, at: place, by: party, under: nil, &effects)
        let cause = Cause(party, .write(.forDeleting))
        for (presenter, concern) in witnesses(of: item, at: place) {
            // P5: of those who work for a presenter it is not asked.
            guard let record = desk.records[presenter], !isOwn(party, record.presenter.party),
                !isSpared(record.presenter.party, by: party), !record.isDemoted
            else { continue }
            let demand =
                concern == .item
                ? Demand(request: .accommodateDeletion)
                : Demand(request: .accommodateSubitemDeletion, subitem: item)
            guard record.presenter.messages.contains(PresenterMessages(demand.request)),
                !isExcused(party, by: presenter)
            else { continue }
            let id =
                desk.turn(of: party, isWrite: true, at: record)
                ?? makeTurn(with: presenter, party, cause.access)
            guard let entry = desk.turns.index(forKey: id), !desk.turns.values[entry].wants(demand),
                !desk.turns.values[entry].isUnanswered
            else { continue }
            desk.turns.values[entry].wanted.append(Want(demand: demand, cause: cause, claims: []))
            desk.turns.values[entry].isLost = true
            desk.turns.values[entry].cause = cause
            desk.turns.values[entry].end = nil
            askNext(in: id, &effects)
        }
    }
}

/// Who is told.
extension Arbiter {
    /// Presenters that hear of what happens to an item, in the order of their numbers.
    private func witnesses(of item: ItemID, at place: Place) -> [(PresenterID, Concern)] {
        if desk.isEmpty { return [] }
        var found = (desk.presented[item] ?? []).map { ($0, Concern.item) }
        for directory in tree.ancestors(of: item, at: place) { found += presenters(above: directory) }
        return found.sorted { $0.0 < $1.0 }
    }

    private func presenters(above directory: ItemID) -> [(PresenterID, Concern)] {
        let concern: Concern = tree.isPackage(directory) ? .package : .directory
        return (desk.presented[directory] ?? []).map { ($0, concern) }
    }

    /// A directory and those above it.
    private func above(_ place: Place) -> [ItemID] {
        guard let directory = place.directory else { return [] }
        return [directory] + tree.ancestors(of: directory, at: Place())
    }

    /// Notes something for each presenter but the one who did it.
    private mutating func tell(
        _ witnesses: [(PresenterID, Concern)], _ cause: Cause, under claim: ClaimID?,
        _ effects: inout [Effect],
        _ body: (inout Turn, Concern) -> Void
    ) {
        for (id, concern) in witnesses {
            guard let record = desk.records[id], !isOwn(cause.party, record.presenter.party),
                !isForItsSake(cause.party, record)
            else { continue }
            note(cause, under: claim, at: record, &effects) { body(&$0, concern) }
        }
    }

    /// P6: whether somebody works for a presenter that owes an answer.
    private func isForItsSake(_ party: Party, _ record: PresenterRecord) -> Bool {
        party.works(for: record.presenter.party) && desk.owesAnything(record.id)
    }

    /// P9: what a presenter writes soon after it was asked to save is the save.
    private mutating func noteSave(by id: PresenterID) {
        guard let asked = desk.records[id]?.saveAsked else { return }
        // With progress it may take longer.
        if now < asked + bounds.save || desk.openSave(of: id) != nil { desk.records[id]?.saved = now }
    }

    private mutating func note(
        _ cause: Cause, under claim: ClaimID?, at record: PresenterRecord, _ effects: inout [Effect],
        _ body: (inout Turn) -> Void
    ) {
        endTrailingTurns(of: record, but: cause.party, &effects)
        // N3: what a claim has done is told before the reacquire that follows it.
        let id =
            writeTurn(of: claim, with: record.id)
            ?? presentTurn(of: cause.party, isWrite: true, at: record, &effects)
            ?? makeTurn(with: record.id, cause.party, cause.access)
        guard let entry = desk.turns.index(forKey: id) else { return }
        body(&desk.turns.values[entry])
        desk.turns.values[entry].cause = cause
        // N8.
        if desk.turns.values[entry].news.count >= Turn.mostNews { tellNews(of: id, &effects) }
        if desk.turns[id]?.members.isEmpty ?? false { beginTrailing(id) }
    }

    private func writeTurn(of claim: ClaimID?, with presenter: PresenterID) -> TurnID? {
        guard let claim, let inquiry = desk.inquiries[claim] else { return nil }
        return inquiry.turns.first { desk.turns[$0].map { $0.presenter == presenter && $0.isWrite } ?? false }
    }

    /// N6: whether a presenter of a package must be told `didChange` for want of something better.
    func mustFallBack(_ turn: Turn, _ record: PresenterRecord) -> Bool {
        guard !turn.news.isEmpty, let item = record.item, tree.isPackage(item) else { return false }
        return turn.news.contains { news in
            news.kinds.contains { !record.presenter.messages.contains(PresenterMessages($0)) }
        }
    }

    /// N8, N6.
    func tellNews(of turn: Turn, _ messages: PresenterMessages, _ effects: inout [Effect]) {
        for news in turn.news {
            for kind in news.kinds where messages.contains(PresenterMessages(kind)) {
                let subitem = Notice.Subitem(
                    news.item, at: news.place, from: kind == .subitemDidMove ? news.former : nil)
                effects.append(
                    .tell(Notice(kind, of: subitem, to: turn.presenter, in: turn.id, news.cause)))
            }
        }
    }

    private mutating func tellNews(of id: TurnID, _ effects: inout [Effect]) {
        guard let turn = desk.turns[id], let record = desk.records[turn.presenter] else { return }
        tellNews(of: turn, record.presenter.messages, &effects)
        if mustFallBack(turn, record) { desk.turns[id]?.changed = turn.cause }
        desk.turns[id]?.news = []
    }
}

extension Turn {
    /// As many items are told of at once (N8).
    static let mostNews = 256

    mutating func note(_ item: ItemID, at place: Place, _ cause: Cause, _ body: (inout SubitemNews) -> Void) {
        let present = news.lastIndex { $0.item == item }
        if present == nil { news.append(SubitemNews(item: item, place: place, cause: cause)) }
        let index = present ?? news.count - 1
        news[index].cause = cause
        body(&news[index])
    }
}

/// How turns end.
extension Arbiter {
    /// A claim is over, or lets others pass: it belongs to no turn any more.
    ///
    /// N3: at once if whoever it was said so, else `trailing` later, so that a save in several steps is one turn.
    mutating func leaveTurns(_ id: ClaimID, atOnce: Bool, _ effects: inout [Effect]) {
        guard let inquiry = desk.inquiries.removeValue(forKey: id) else { return }
        for turn in inquiry.turns {
            guard let entry = desk.turns.index(forKey: turn) else { continue }
            desk.turns.values[entry].members.removeAll { $0 == id }
            desk.turns.values[entry].stopAsking(for: id)
            guard desk.turns.values[entry].members.isEmpty else {
                // P1: those who stay may have been waiting for what nobody wants any more.
                if desk.turns.values[entry].isSettled { unsettled += desk.turns.values[entry].members }
                continue
            }
            if atOnce || !desk.turns.values[entry].hasAnythingToSay {
                endTurn(turn, &effects)
            } else {
                beginTrailing(turn)
            }
        }
    }

    mutating func beginTrailing(_ id: TurnID) {
        guard let entry = desk.turns.index(forKey: id) else { return }
        // An answer that is owed to nobody any more is not waited for, but for that to a deletion which has happened.
        if desk.turns.values[entry].isLost, !desk.turns.values[entry].isSettled { return }
        let end = now + bounds.trailing
        desk.turns.values[entry].end = end
        alarms.insert(Alarms.Alarm(moment: end, subject: .turn(id)))
    }

    /// N5: before a presenter hears of somebody else it is told what is over.
    mutating func endTrailingTurns(
        of record: PresenterRecord, but party: Party, _ effects: inout [Effect]
    ) {
        for id in record.turns {
            guard let turn = desk.turns[id], turn.end != nil, !turn.party.isOneProgram(with: party) else {
                continue
            }
            endTurn(id, &effects)
        }
    }

    /// N3: the turn in which an access of a party belongs, if there is one.
    ///
    /// A program that comes again and again would keep its presenters away for ever: a turn that has lasted `hold` takes
    /// nobody in any more, and is over as soon as nobody is in it.
    mutating func presentTurn(
        of party: Party, isWrite: Bool, at record: PresenterRecord, _ effects: inout [Effect]
    ) -> TurnID? {
        guard let id = desk.turn(of: party, isWrite: isWrite, at: record), let turn = desk.turns[id] else {
            return nil
        }
        guard turn.isSettled, turn.began + bounds.hold <= now else { return id }
        if turn.members.isEmpty { endTurn(id, &effects) }
        return nil
    }

    /// N3: what happened in the turn is told before its reacquire.
    mutating func endTurn(_ id: TurnID, _ effects: inout [Effect]) {
        guard let turn = desk.turns.removeValue(forKey: id), let record = desk.records[turn.presenter] else {
            return
        }
        desk.records[turn.presenter]?.turns.removeAll { $0 == id }
        // N9.
        let hasAgreed = turn.asked.contains { $0.request == .accommodateDeletion }
        let changed = turn.changed ?? (mustFallBack(turn, record) ? turn.cause : nil)
        let messages = record.presenter.messages
        if turn.deleted == nil {
            tell(.didMove, turn, turn.moved, messages, &effects)
            tell(.didChange, turn, changed, messages, &effects)
        } else if !hasAgreed {
            tellOfDeletion(turn, record, &effects)
        }
        tellNews(of: turn, messages, &effects)
        tell(.reacquire, turn, turn.isRelinquished ? turn.cause : nil, messages, &effects)
    }

    private func tell(
        _ notice: PresenterNotice, _ turn: Turn, _ cause: Cause?, _ messages: PresenterMessages,
        _ effects: inout [Effect]
    ) {
        guard let cause, messages.contains(PresenterMessages(notice)) else { return }
        effects.append(.tell(Notice(notice, to: turn.presenter, in: turn.id, cause)))
    }

    /// N9, N6: a plain directory has no contents of its own that could change.
    private func tellOfDeletion(_ turn: Turn, _ record: PresenterRecord, _ effects: inout [Effect]) {
        guard let item = record.item, tree.isDirectory(item), !tree.isPackage(item) else {
            return tell(.didChange, turn, turn.deleted, record.presenter.messages, &effects)
        }
        guard let cause = turn.deleted, record.presenter.messages.contains(.subitemDidChange) else { return }
        let subitem = Notice.Subitem(item, at: record.place)
        effects.append(.tell(Notice(.subitemDidChange, of: subitem, to: turn.presenter, in: turn.id, cause)))
    }

    /// N4: a writer that lets others pass is reported as far as it got.
    mutating func tellBeforeSuspension(of claim: Claim, _ effects: inout [Effect]) {
        let silent = desk.inquiries[claim.id]?.silent ?? []
        switch contests[claim.id]?.seen {
        case .dirty(let stamp): tellWritten(by: claim, stamp: stamp, &effects)
        case .untouched: tellWritten(by: claim, stamp: nil, &effects)
        case .clean, .atEnd, .reading, nil: break
        }
        leaveTurns(claim.id, atOnce: false, &effects)
        // P6: what its handle still writes is no less the presenter's own.
        if !silent.isEmpty { desk.inquiries[claim.id] = Inquiry(silent: silent) }
    }

    private mutating func tellWritten(by claim: Claim, stamp: UInt64?, _ effects: inout [Effect]) {
        if desk.isEmpty { return }
        claim.forEachPart { part in
            guard part.access.isWrite else { return }
            noteChange(
                of: part.item, at: part.place, Cause(.nobody, part.access), under: claim.id,
                stamp: stamp ?? 0,
                &effects)
        }
        claims[claim.id]?.toldStamp = stamp
    }

    /// An episode goes on with the turn in which its name was vacated.
    mutating func joinTurns(_ claim: Claim, _ party: Party) {
        guard !desk.isEmpty, desk.inquiries[claim.id] == nil else { return }
        var inquiry = Inquiry()
        claim.forEachPart { part in
            for id in desk.presented[part.item] ?? [] {
                guard let record = desk.records[id],
                    let turn = desk.turn(of: party, isWrite: true, at: record),
                    let entry = desk.turns.index(forKey: turn)
                else { continue }
                desk.turns.values[entry].members.append(claim.id)
                desk.turns.values[entry].end = nil
                inquiry.turns.append(turn)
            }
        }
        if !inquiry.turns.isEmpty { desk.inquiries[claim.id] = inquiry }
    }
}
