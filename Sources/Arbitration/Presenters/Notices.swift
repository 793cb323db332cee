// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Which events presenters are told of, and when.
extension Arbiter {
    /// Notes a change of contents or attributes (N1). If `isOngoing` is true, the program perhaps writes more, and
    /// presenters are told immediately (N12).
    mutating func noteChange(
        of item: ItemID, at place: Place, _ cause: Cause, under id: ClaimID?, stamp: UInt64,
        isOngoing: Bool = false, _ effects: inout [Effect]
    ) {
        let cause = Cause(families.party(of: id) ?? cause.party, cause.access)
        // N4, N12: If presenters were told of this state of the file, nothing happens. An ongoing change is reported
        // again for each name of the item.
        if !isOngoing, let id, let told = claims[id]?.reportedStamp, told == stamp { return }
        if isOngoing, let id { claims.update(id) { $0.reportedStamp = stamp } }
        let isPlainDirectory = tree.isPlainDirectory(item)
        noteMissed(item, at: place, by: cause.party)
        var itemEvent = ItemEvent(cause, [NameKey(item, at: place)])
        itemEvent.isOngoing = isOngoing
        noteUnaskedWrites(item, under: id)
        for (presenter, relation) in recipients(of: item, at: place) {
            guard let record = registry.records[presenter] else { continue }
            if isOwnDoing(cause.party, under: id, record) {
                registry.updateRecord(presenter) { _ = $0.unaskedWrites.remove(item) }
                if relation != .directory { noteSave(by: presenter) }
                registry.updateRecord(presenter) { $0.isOutdated = false }
                continue
            }
            count(relation, record)
            note(itemEvent, under: id, at: record, &effects) { accessSession in
                // N6: A plain directory (no package) has no contents of its own. So its change is stored like the
                // change of an item in the directory.
                if relation == .item, !isPlainDirectory { return accessSession.changed = cause }
                accessSession.nameEvents.change(item, at: place, cause)
            }
        }
    }

    /// N6: Notes that an item was created.
    mutating func noteCreation(
        of item: ItemID, at place: Place, by party: Party, under claim: ClaimID?, _ effects: inout [Effect]
    ) {
        let cause = Cause(party, .write(.forReplacing))
        let isPlainDirectory = tree.isPlainDirectory(item)
        for presenter in registry.presented[item] ?? []
        where registry.records[presenter]?.place.isSameName(as: place) ?? false {
            takeBackDeletion(of: item, to: presenter)
        }
        noteMissed(item, at: place, by: party)
        let itemEvent = ItemEvent(cause, [NameKey(item, at: place)])
        tell(recipients(of: item, at: place), itemEvent, under: claim, &effects) { accessSession, relation in
            if relation == .item {
                if !isPlainDirectory { return accessSession.changed = cause }
                return accessSession.nameEvents.change(item, at: place, cause)
            }
            accessSession.nameEvents.appear(item, at: place, cause)
        }
    }

    /// N9: Called when an item exists again: cancels the notices of its deletion by any party.
    private mutating func takeBackDeletion(of item: ItemID, to presenter: PresenterID) {
        for accessSession in registry.records[presenter]?.accessSessions ?? [] {
            registry.updateAccessSession(accessSession) { accessSession in
                accessSession.deleted = nil
                accessSession.nameEvents.takeBackDeletion(of: item)
            }
        }
    }

    /// N2, N7, N9: Notes that an item has a new name. If a deletion of the item was noted before, cancels its notice.
    mutating func noteMove(
        of item: ItemID, _ move: Move, by party: Party, under claim: ClaimID?, _ effects: inout [Effect]
    ) {
        let cause = Cause(party, .write(.forMoving))
        let own = ItemEvent(cause, [])
        for id in registry.presented[item] ?? []
        where registry.records[id]?.place.isSameName(as: move.to) ?? false {
            takeBackDeletion(of: item, to: id)
            if noteMissedMove(id, by: party, under: claim) { continue }
            tell([(id, .item)], own, under: claim, &effects) { accessSession, _ in
                accessSession.noteMove(of: item, move, cause)
            }
        }
        var below: [(PresenterID, PresenterRelation)] = []
        forEachPresenter(below: item) { below.append(($0, .below)) }
        below.removeAll { noteMissedMove($0.0, by: party, under: claim) }
        tell(below.sorted { $0.0 < $1.0 }, own, under: claim, &effects) { accessSession, _ in
            accessSession.noteMove(of: item, move, cause)
        }
        noteMoveAbove(item, move, cause, under: claim, &effects)
    }

    /// N7: Notes a move for the presenters of the directories above the old name and above the new name.
    private mutating func noteMoveAbove(
        _ item: ItemID, _ move: Move, _ cause: Cause, under claim: ClaimID?, _ effects: inout [Effect]
    ) {
        let (before, after) = (Set(above(move.from)), Set(above(move.to)))
        noteMissed(below: before.union(after), by: cause.party)
        let arrival: NameEvents.Arrival = tree.isDirectory(item) ? .directoryMoved(cause) : .moved(cause)
        var itemEvent = ItemEvent(
            cause, [NameKey(item, at: move.from), NameKey(move.replacedDocument ?? item, at: move.to)])
        // N7: Presenters are told of the move of a directory immediately, because later notices have paths with the new
        // name.
        itemEvent.isToldAtOnce = arrival.isOfDirectory
        if move.isSecondHalf { itemEvent.mover = item }
        if arrival.isOfDirectory {
            for (presenter, _) in before.subtracting(after).sorted().flatMap(presenters) {
                reportNameEvents(
                    inside: item, but: move.isSecondHalf ? NameKey(item, at: move.from) : nil, to: presenter,
                    &effects)
            }
        }
        for directory in before.union(after).sorted() {
            let isKept = after.contains(directory) && !arrival.isOfDirectory && move.replacedDocument == nil
            itemEvent.moved = isKept ? (item, move) : nil
            tell(presenters(above: directory), itemEvent, under: claim, &effects) { accessSession, _ in
                accessSession.nameEvents.move(
                    item, move, arrival, isFromInside: before.contains(directory),
                    isToInside: after.contains(directory))
            }
        }
    }

    /// N6, N9: Notes that an item was deleted.
    mutating func noteDeletion(
        of item: ItemID, at place: Place, by party: Party, under claim: ClaimID?, _ effects: inout [Effect]
    ) {
        let cause = Cause(party, .write(.forDeleting))
        noteMissed(item, at: place, by: party)
        let concerned = recipients(of: item, deletedAt: place)
        for (presenter, _) in concerned {
            registry.updateRecord(presenter) { _ = $0.unaskedWrites.remove(item) }
        }
        let isPlainDirectory = tree.isPlainDirectory(item)
        if tree.isDirectory(item) {
            for (presenter, relation) in concerned where relation != .item {
                reportNameEvents(inside: item, to: presenter, &effects)
            }
        }
        let itemEvent = ItemEvent(cause, [NameKey(item, at: place)])
        tell(concerned, itemEvent, under: claim, &effects) { accessSession, relation in
            if relation == .item, !isPlainDirectory { return accessSession.deleted = cause }
            accessSession.nameEvents.remove(item, at: place, cause)
        }
    }

    /// P2: Asks presenters about a deletion that has happened already. The presenters were not asked before the
    /// deletion, because the deletion could have been the first step of a save.
    mutating func noteLoss(of item: ItemID, at place: Place, by party: Party, _ effects: inout [Effect]) {
        let cause = Cause(party, .write(.forDeleting))
        // Paused presenters receive no notices about items in their directory, but they are asked this question.
        let recipients = allRecipients(of: item, deletedAt: place)
        let name = NameKey(item, at: place)
        let untold = recipients.filter { registry.isUnreported(name, to: $0.0) }.map(\.0)
        noteDeletion(of: item, at: place, by: party, under: nil, &effects)
        for (presenter, relation) in recipients {
            // P26: A presenter is not asked about the deletion of an item that it was not told of.
            if relation != .item, untold.contains(presenter), registry.isUnreported(name, to: presenter) {
                continue
            }
            // P5: A presenter is not asked about accesses of its own party, or of parties that work for the presenter.
            guard let record = registry.records[presenter], !isOwn(party, record.presenter.party),
                !isSpared(record.presenter.party, by: party), !record.isLeftAlone
            else { continue }
            let questionKind =
                relation == .item
                ? QuestionKind(request: .accommodateDeletion)
                : QuestionKind(request: .accommodateSubitemDeletion, subitem: item)
            guard record.presenter.messages.contains(PresenterMessages(questionKind.request)),
                !goesOnExcused(party, by: presenter)
            else { continue }
            let id =
                currentAccessSession(of: party, isWrite: true, at: record, &effects)
                ?? makeAccessSession(with: presenter, party, cause.access)
            let isAsked = { [questions = registry.questions] (id: QuestionID) in
                questions[id].map { QuestionKind(request: $0.request, subitem: $0.subitem) == questionKind }
                    ?? false
            }
            let isWaitedFor = registry.updateAccessSession(id) {
                $0.enqueueAboutLoss(questionKind, cause, isOpen: isAsked)
            }
            guard isWaitedFor ?? false else { continue }
            registry.updateAccessSession(id) { $0.end = nil }
            askNext(in: id, &effects)
        }
    }

    /// N16: Tells presenters at once that the store has gained or lost a version of an item, or that a conflict was
    /// resolved. The presenter whose program caused this is told, too.
    mutating func noteVersion(
        _ change: VersionChange, of item: ItemID, at place: Place, _ cause: Cause, _ effects: inout [Effect]
    ) {
        noteMissed(item, at: place, by: .nobody)
        for (presenter, relation) in recipients(of: item, at: place) {
            let kind = change.notice(ofSubitem: relation != .item)
            guard let record = registry.records[presenter],
                record.presenter.messages.contains(PresenterMessages(kind))
            else { continue }
            count(relation, record)
            let subitem = relation == .item ? nil : Notice.Subitem(item, at: place)
            effects.append(
                .tell(
                    Notice(
                        kind, of: subitem, to: presenter, in: registry.makeAccessSessionID(), cause,
                        version: change.version)))
        }
    }
}

/// Which presenters are told of an event.
extension Arbiter {
    /// The presenters that are told of the events of an item, in the order of their numbers.
    func recipients(of item: ItemID, at place: Place) -> [(PresenterID, PresenterRelation)] {
        if registry.isEmpty { return [] }
        var found = registry.unmutedPresenters(to: item).map { ($0, PresenterRelation.item) }
        var lists = found.isEmpty ? 0 : 1
        for directory in tree.ancestors(of: item, at: place) {
            let above = presenters(above: directory)
            if !above.isEmpty { lists += 1 }
            found += above
        }
        // A single list is sorted already.
        return lists > 1 ? found.sorted { $0.0 < $1.0 } : found
    }

    /// P19: The presenters that are told of the deletion of a name, without those that show the item by another name.
    private func recipients(of item: ItemID, deletedAt place: Place) -> [(PresenterID, PresenterRelation)] {
        recipients(of: item, at: place).filter { id, relation in
            relation != .item || registry.records[id]?.place.isSameName(as: place) ?? false
        }
    }

    /// The presenters that are told of the deletion of a name, and the paused presenters of the directories above.
    private func allRecipients(of item: ItemID, deletedAt place: Place) -> [(PresenterID, PresenterRelation)]
    {
        if registry.pauses.isEmpty { return recipients(of: item, deletedAt: place) }
        var found = recipients(of: item, deletedAt: place)
        let known = Set(found.map(\.0))
        for directory in tree.ancestors(of: item, at: place) where !tree.isPackage(directory) {
            let all = registry.presented[directory] ?? []
            found += all.filter { !known.contains($0) }.map { ($0, .directory) }
        }
        return found.sorted { $0.0 < $1.0 }
    }

    private func presenters(above directory: ItemID) -> [(PresenterID, PresenterRelation)] {
        let relation: PresenterRelation = tree.isPackage(directory) ? .package : .directory
        return listeners(above: directory).map { ($0, relation) }
    }

    /// The directory of a place and the directories above it, the nearest first.
    private func above(_ place: Place) -> [ItemID] {
        guard let directory = place.directory else { return [] }
        return [directory] + tree.ancestors(of: directory, at: Place())
    }

    /// Notes an event for each recipient. If a recipient caused the event itself, it will not be told of the event.
    private mutating func tell(
        _ recipients: [(PresenterID, PresenterRelation)], _ itemEvent: ItemEvent, under claim: ClaimID?,
        _ effects: inout [Effect],
        _ body: (inout AccessSession, PresenterRelation) -> Void
    ) {
        let cause = itemEvent.cause
        for (id, relation) in recipients {
            guard let record = registry.records[id] else { continue }
            if isOwnDoing(cause.party, under: claim, record) {
                for accessSession in relation == .item ? [] : record.accessSessions {
                    registry.updateAccessSession(accessSession) { $0.nameEvents.know(itemEvent) }
                }
                if cause.access.changesContents {
                    registry.updateRecord(id) { $0.isOutdated = false }
                }
                continue
            }
            count(relation, record)
            note(itemEvent, under: claim, at: record, &effects) { body(&$0, relation) }
        }
    }

    /// N15: Returns whether a presenter is muted. If another party has moved the item of a muted presenter, stores that
    /// the presenter must be told of the move later.
    private mutating func noteMissedMove(_ id: PresenterID, by party: Party, under claim: ClaimID?) -> Bool {
        guard registry.isMuted(id), let record = registry.records[id] else { return false }
        if !isOwnDoing(party, under: claim, record) {
            registry.updateRecord(id) { $0.mute?.hasMissedMove = true }
        }
        return true
    }

    /// Counts an event for the guest of a presenter. Events of items in a presented directory are counted separately.
    private mutating func count(_ relation: PresenterRelation, _ record: PresenterRecord) {
        if relation != .directory { return registry.eventCounts.countItemEvent(of: record) }
        registry.eventCounts.countSubitemEvent(of: record)
    }

    /// P5, P6: Whether an event was caused by a presenter, or by a program that saves for the presenter. The presenter
    /// is not told of such an event.
    private func isOwnDoing(_ party: Party, under claim: ClaimID?, _ record: PresenterRecord) -> Bool {
        if isOwn(party, record.presenter.party) { return true }
        // When the presenters of the claim were selected, `ownPresenters` got the presenters for which the claim is
        // their own access.
        if let claim, claims[claim]?.hasConsulted ?? false {
            return registry.consultations[claim]?.ownPresenters.contains(record.id) ?? false
        }
        return isOnItsBehalf(party, answering: claim.flatMap { claims[$0]?.answering }, record)
    }

    /// P9: Notes that a presenter has saved, if it was asked to save shortly before this write.
    private mutating func noteSave(by id: PresenterID) {
        guard let asked = registry.records[id]?.saveAsked else { return }
        // A save that is still open counts even after this time, because a presenter that reports progress has more
        // time.
        if now < asked + bounds.save || registry.openSave(of: id) != nil {
            let now = now
            registry.updateRecord(id) { $0.saved = now }
        }
    }

    private mutating func note(
        _ itemEvent: ItemEvent, under claim: ClaimID?, at record: PresenterRecord, _ effects: inout [Effect],
        _ body: (inout AccessSession) -> Void
    ) {
        let (cause, names) = (itemEvent.cause, itemEvent.names)
        // P24: A presenter that implements no notice of changes does not know the contents any more.
        if !record.hearsOfChanges, cause.access.changesContents {
            registry.updateRecord(record.id) { $0.isOutdated = true }
        }
        if !itemEvent.isToldAtOnce {
            endTrailingSessions(of: record, but: cause.party, &effects) { accessSession in
                accessSession.isRelinquished || accessSession.hasItemEvents
                    || accessSession.nameEvents.knows(anyOf: names)
            }
        }
        // N3: The presenter is told of a claim's events before the reacquire for that claim.
        let id =
            writeSession(of: claim, with: record.id)
            ?? currentAccessSession(of: cause.party, isWrite: true, at: record, &effects)
            ?? makeAccessSession(with: record.id, cause.party, cause.access)
        handOverNames(to: itemEvent, in: id, at: record.id, &effects)
        let knownNames = registry.updateAccessSession(id) { accessSession in
            body(&accessSession)
            accessSession.cause = cause
            return accessSession.nameEvents.entries.count
        }
        guard let knownNames else { return }
        // N7, N8: The presenter is told immediately of the move of a directory, or if the access session has events of
        // too many names.
        let isFull = knownNames >= NameEventLog.most(among: registry.records.count)
        if isFull || itemEvent.isToldAtOnce { reportNameEvents(of: id, &effects) }
        // N12: The program may write more, so the presenter is told now.
        if itemEvent.isOngoing { reportWritten(names, of: id, &effects) }
        if registry.accessSessions[id]?.members.isEmpty ?? false { beginTrailing(id) }
    }

    private func writeSession(of claim: ClaimID?, with presenter: PresenterID) -> AccessSessionID? {
        guard let claim, let consultation = registry.consultations[claim],
            !consultation.accessSessions.isEmpty
        else { return nil }
        // I5: A claim has at most one access session with each presenter. If the claim has more than 8 sessions, this
        // function searches the presenter's list of sessions, and not the claim's list.
        guard consultation.accessSessions.count > 8 else {
            return consultation.accessSessions.first {
                registry.accessSessions[$0].map { $0.presenter == presenter && $0.isWrite } ?? false
            }
        }
        return registry.records[presenter]?.accessSessions.first {
            registry.accessSessions[$0].map { $0.isWrite && $0.members.contains(claim) } ?? false
        }
    }
}

/// An event of an item, and the names under which presenters of directories above see it.
struct ItemEvent {
    let cause: Cause
    let names: [NameKey]
    /// Whether presenters are told of the event immediately, and not when the access session ends.
    var isToldAtOnce = false
    /// N12: Whether the program perhaps writes more, so that presenters are told immediately.
    var isOngoing = false
    /// For the second of two moves that exchange two names: the moved item. Nil for all other events.
    var mover: ItemID?
    /// The item and its move, if a file was moved to a name below the presenter's directory. Nil for all other events.
    var moved: (item: ItemID, move: Move)?

    init(_ cause: Cause, _ names: [NameKey]) {
        (self.cause, self.names) = (cause, names)
    }
}
