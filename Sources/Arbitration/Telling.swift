// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What presenters are told, and when.
extension Arbiter {
    /// N1: contents or attributes were written; N12: by a program that goes on.
    mutating func noteChange(
        of item: ItemID, at place: Place, _ cause: Cause, under id: ClaimID?, stamp: UInt64,
        isGoingOn: Bool = false, _ effects: inout [Effect]
    ) {
        let cause = Cause(parties[id] ?? cause.party, cause.access)
        // N4, N12: it was told already. What goes on is told of each name of the item.
        if !isGoingOn, let id, let told = claims[id]?.toldStamp, told == stamp { return }
        if isGoingOn, let id { claims[id]?.toldStamp = stamp }
        let isPlainDirectory = tree.isPlainDirectory(item)
        noteMissed(item, at: place, by: cause.party)
        var happening = Happening(cause, [Name(item, at: place)])
        happening.isGoingOn = isGoingOn
        notePassingOver(item, under: id)
        for (presenter, concern) in witnesses(of: item, at: place) {
            guard let record = desk.records[presenter] else { continue }
            if isSilent(cause.party, under: id, record) {
                desk.records[presenter]?.passedOver.remove(item)
                if concern != .directory { noteSave(by: presenter) }
                desk.records[presenter]?.isOutdated = false
                continue
            }
            count(concern, record)
            note(happening, under: id, at: record, &effects) { turn in
                // N6: a plain directory has no contents of its own.
                if concern == .item, !isPlainDirectory { return turn.changed = cause }
                turn.news.change(item, at: place, cause)
            }
        }
    }

    /// N6: there is a new item.
    mutating func noteCreation(
        of item: ItemID, at place: Place, by party: Party, under claim: ClaimID?, _ effects: inout [Effect]
    ) {
        let cause = Cause(party, .write(.forReplacing))
        let isPlainDirectory = tree.isPlainDirectory(item)
        for presenter in desk.presented[item] ?? []
        where desk.records[presenter]?.place.isSameName(as: place) ?? false {
            takeBackDeletion(of: item, to: presenter)
        }
        noteMissed(item, at: place, by: party)
        let happening = Happening(cause, [Name(item, at: place)])
        tell(witnesses(of: item, at: place), happening, under: claim, &effects) { turn, concern in
            if concern == .item {
                if !isPlainDirectory { return turn.changed = cause }
                return turn.news.change(item, at: place, cause)
            }
            turn.news.appear(item, at: place, cause)
        }
    }

    /// N9: it is there again, whoever deleted it.
    private mutating func takeBackDeletion(of item: ItemID, to presenter: PresenterID) {
        for turn in desk.records[presenter]?.turns ?? [] {
            desk.turns[turn]?.deleted = nil
            desk.turns[turn]?.news.takeBackDeletion(of: item)
        }
    }

    /// N2, N7, N9: the item is called something else now, though it may have been taken for deleted.
    mutating func noteMove(
        of item: ItemID, _ move: Move, by party: Party, under claim: ClaimID?, _ effects: inout [Effect]
    ) {
        let cause = Cause(party, .write(.forMoving))
        let own = Happening(cause, [])
        for id in desk.presented[item] ?? [] where desk.records[id]?.place.isSameName(as: move.to) ?? false {
            takeBackDeletion(of: item, to: id)
            if noteMissedMove(id, by: party, under: claim) { continue }
            tell([(id, .item)], own, under: claim, &effects) { turn, _ in turn.noteMove(of: item, move, cause)
            }
        }
        var below: [(PresenterID, Concern)] = []
        forEachPresenter(below: item) { below.append(($0, .below)) }
        below.removeAll { noteMissedMove($0.0, by: party, under: claim) }
        tell(below.sorted { $0.0 < $1.0 }, own, under: claim, &effects) { turn, _ in
            turn.noteMove(of: item, move, cause)
        }
        noteMoveAbove(item, move, cause, under: claim, &effects)
    }

    /// N7: those above its old place, and those above its new one.
    private mutating func noteMoveAbove(
        _ item: ItemID, _ move: Move, _ cause: Cause, under claim: ClaimID?, _ effects: inout [Effect]
    ) {
        let (before, after) = (Set(above(move.from)), Set(above(move.to)))
        noteMissed(below: before.union(after), by: cause.party)
        let arrival: NameNews.Arrival = tree.isDirectory(item) ? .directoryMoved(cause) : .moved(cause)
        var happening = Happening(cause, [Name(item, at: move.from), Name(move.over ?? item, at: move.to)])
        // N7: what is told later is told with its new path.
        happening.isToldAtOnce = arrival.isOfDirectory
        if move.isSecondHalf { happening.mover = item }
        if arrival.isOfDirectory {
            for (presenter, _) in before.subtracting(after).sorted().flatMap(presenters) {
                tellNews(
                    inside: item, but: move.isSecondHalf ? Name(item, at: move.from) : nil, to: presenter,
                    &effects)
            }
        }
        for directory in before.union(after).sorted() {
            let isKept = after.contains(directory) && !arrival.isOfDirectory && move.over == nil
            happening.moved = isKept ? (item, move) : nil
            tell(presenters(above: directory), happening, under: claim, &effects) { turn, _ in
                turn.news.move(
                    item, move, arrival, isFromInside: before.contains(directory),
                    isToInside: after.contains(directory))
            }
        }
    }

    /// N6, N9: the item is not there any more.
    mutating func noteDeletion(
        of item: ItemID, at place: Place, by party: Party, under claim: ClaimID?, _ effects: inout [Effect]
    ) {
        let cause = Cause(party, .write(.forDeleting))
        noteMissed(item, at: place, by: party)
        let concerned = witnesses(of: item, deletedAt: place)
        for (presenter, _) in concerned { desk.records[presenter]?.passedOver.remove(item) }
        let isPlainDirectory = tree.isPlainDirectory(item)
        if tree.isDirectory(item) {
            for (presenter, concern) in concerned where concern != .item {
                tellNews(inside: item, to: presenter, &effects)
            }
        }
        let happening = Happening(cause, [Name(item, at: place)])
        tell(concerned, happening, under: claim, &effects) { turn, concern in
            if concern == .item, !isPlainDirectory { return turn.deleted = cause }
            turn.news.remove(item, at: place, cause)
        }
    }

    /// P2: what began like a save was a deletion, and is put to presenters now.
    mutating func noteLoss(of item: ItemID, at place: Place, by party: Party, _ effects: inout [Effect]) {
        let cause = Cause(party, .write(.forDeleting))
        // Those who are paused are asked all the same.
        let witnesses = allWitnesses(of: item, deletedAt: place)
        let name = Name(item, at: place)
        let untold = witnesses.filter { desk.isUntold(name, to: $0.0) }.map(\.0)
        noteDeletion(of: item, at: place, by: party, under: nil, &effects)
        for (presenter, concern) in witnesses {
            // P26.
            if concern != .item, untold.contains(presenter), desk.isUntold(name, to: presenter) { continue }
            // P5: of those who work for a presenter it is not asked.
            guard let record = desk.records[presenter], !isOwn(party, record.presenter.party),
                !isSpared(record.presenter.party, by: party), !record.isLeftAlone
            else { continue }
            let demand =
                concern == .item
                ? Demand(request: .accommodateDeletion)
                : Demand(request: .accommodateSubitemDeletion, subitem: item)
            guard record.presenter.messages.contains(PresenterMessages(demand.request)),
                !goesOnExcused(party, by: presenter)
            else { continue }
            let id =
                presentTurn(of: party, isWrite: true, at: record, &effects)
                ?? makeTurn(with: presenter, party, cause.access)
            let isAsked = { [questions = desk.questions] (id: QuestionID) in
                questions[id].map { Demand(request: $0.request, subitem: $0.subitem) == demand } ?? false
            }
            guard let entry = desk.turns.index(forKey: id),
                desk.turns.values[entry].wantForLoss(demand, cause, isOpen: isAsked)
            else { continue }
            desk.turns.values[entry].end = nil
            askNext(in: id, &effects)
        }
    }
}

/// Who is told.
extension Arbiter {
    /// Presenters that hear of what happens to an item, in the order of their numbers.
    func witnesses(of item: ItemID, at place: Place) -> [(PresenterID, Concern)] {
        if desk.isEmpty { return [] }
        var found = desk.attentive(to: item).map { ($0, Concern.item) }
        var lists = found.isEmpty ? 0 : 1
        for directory in tree.ancestors(of: item, at: place) {
            let above = presenters(above: directory)
            if !above.isEmpty { lists += 1 }
            found += above
        }
        // Each list is sorted.
        return lists > 1 ? found.sorted { $0.0 < $1.0 } : found
    }

    /// P19: of those who show the item, those who show this name.
    private func witnesses(of item: ItemID, deletedAt place: Place) -> [(PresenterID, Concern)] {
        witnesses(of: item, at: place).filter { id, concern in
            concern != .item || desk.records[id]?.place.isSameName(as: place) ?? false
        }
    }

    /// The same, with those who are paused.
    private func allWitnesses(of item: ItemID, deletedAt place: Place) -> [(PresenterID, Concern)] {
        if desk.pauses.isEmpty { return witnesses(of: item, deletedAt: place) }
        var found = witnesses(of: item, deletedAt: place)
        let known = Set(found.map(\.0))
        for directory in tree.ancestors(of: item, at: place) where !tree.isPackage(directory) {
            let all = desk.presented[directory] ?? []
            found += all.filter { !known.contains($0) }.map { ($0, .directory) }
        }
        return found.sorted { $0.0 < $1.0 }
    }

    private func presenters(above directory: ItemID) -> [(PresenterID, Concern)] {
        let concern: Concern = tree.isPackage(directory) ? .package : .directory
        return listeners(above: directory).map { ($0, concern) }
    }

    /// A directory and those above it.
    private func above(_ place: Place) -> [ItemID] {
        guard let directory = place.directory else { return [] }
        return [directory] + tree.ancestors(of: directory, at: Place())
    }

    /// Notes something for each presenter but the one who did it.
    private mutating func tell(
        _ witnesses: [(PresenterID, Concern)], _ happening: Happening, under claim: ClaimID?,
        _ effects: inout [Effect],
        _ body: (inout Turn, Concern) -> Void
    ) {
        let cause = happening.cause
        for (id, concern) in witnesses {
            guard let record = desk.records[id] else { continue }
            if isSilent(cause.party, under: claim, record) {
                for turn in concern == .item ? [] : record.turns { desk.turns[turn]?.news.know(happening) }
                if cause.access.changesContents { desk.records[id]?.isOutdated = false }
                continue
            }
            count(concern, record)
            note(happening, under: claim, at: record, &effects) { body(&$0, concern) }
        }
    }

    /// Whether a presenter is muted, and so will be told later of a move that is not its own (N15).
    private mutating func noteMissedMove(_ id: PresenterID, by party: Party, under claim: ClaimID?) -> Bool {
        guard desk.isMuted(id), let record = desk.records[id] else { return false }
        if !isSilent(party, under: claim, record) { desk.records[id]?.mute?.hasMissedMove = true }
        return true
    }

    /// Names below are counted apart from what a presenter shows itself.
    private mutating func count(_ concern: Concern, _ record: PresenterRecord) {
        if concern != .directory { return countAttention(of: record) }
        if let share = record.presenter.share { hearings[share, default: 0] += 1 }
    }

    /// P5, P6: whether a presenter is not told of what somebody does, because it is its own doing.
    private func isSilent(_ party: Party, under claim: ClaimID?, _ record: PresenterRecord) -> Bool {
        if isOwn(party, record.presenter.party) { return true }
        // Of an access that was put to its presenters it was known then.
        if let claim, claims[claim]?.isPut ?? false {
            return desk.inquiries[claim]?.silent.contains(record.id) ?? false
        }
        return isForItsSake(party, answering: claim.flatMap { claims[$0]?.answering }, record)
    }

    /// P9: what a presenter writes soon after it was asked to save is the save.
    private mutating func noteSave(by id: PresenterID) {
        guard let asked = desk.records[id]?.saveAsked else { return }
        // With progress it may take longer.
        if now < asked + bounds.save || desk.openSave(of: id) != nil { desk.records[id]?.saved = now }
    }

    private mutating func note(
        _ happening: Happening, under claim: ClaimID?, at record: PresenterRecord, _ effects: inout [Effect],
        _ body: (inout Turn) -> Void
    ) {
        let (cause, names) = (happening.cause, happening.names)
        // P24.
        if !record.hearsOfChanges, cause.access.changesContents { desk.records[record.id]?.isOutdated = true }
        if !happening.isToldAtOnce {
            endTrailingTurns(of: record, but: cause.party, &effects) { turn in
                turn.isRelinquished || turn.hasOwnNews || turn.news.knows(anyOf: names)
            }
        }
        // N3: what a claim has done is told before the reacquire that follows it.
        let id =
            writeTurn(of: claim, with: record.id)
            ?? presentTurn(of: cause.party, isWrite: true, at: record, &effects)
            ?? makeTurn(with: record.id, cause.party, cause.access)
        giveWay(to: happening, in: id, at: record.id, &effects)
        guard let entry = desk.turns.index(forKey: id) else { return }
        body(&desk.turns.values[entry])
        desk.turns.values[entry].cause = cause
        // N7, N8.
        let isFull =
            desk.turns.values[entry].news.entries.count >= NameLedger.most(among: desk.records.count)
        if isFull || happening.isToldAtOnce { tellNews(of: id, &effects) }
        // N12.
        if happening.isGoingOn { tellWritten(names, of: id, &effects) }
        if desk.turns[id]?.members.isEmpty ?? false { beginTrailing(id) }
    }

    private func writeTurn(of claim: ClaimID?, with presenter: PresenterID) -> TurnID? {
        guard let claim, let inquiry = desk.inquiries[claim], !inquiry.turns.isEmpty else { return nil }
        // I5: a claim has at most one turn with each presenter. It may be in very many turns, and a presenter may have many.
        guard inquiry.turns.count > 8 else {
            return inquiry.turns.first {
                desk.turns[$0].map { $0.presenter == presenter && $0.isWrite } ?? false
            }
        }
        return desk.records[presenter]?.turns.first {
            desk.turns[$0].map { $0.isWrite && $0.members.contains(claim) } ?? false
        }
    }
}

/// What happened, and at which names those above hear of it.
struct Happening {
    let cause: Cause
    let names: [Name]
    /// Whether the turn in which it happened tells its news at once.
    var isToldAtOnce = false
    /// Whether its program may do more of it, so that the turn tells it now (N12).
    var isGoingOn = false
    /// What got another name.
    var mover: ItemID?
    /// A file that took its contents to another name.
    var moved: (item: ItemID, move: Move)?

    init(_ cause: Cause, _ names: [Name]) {
        (self.cause, self.names) = (cause, names)
    }
}
