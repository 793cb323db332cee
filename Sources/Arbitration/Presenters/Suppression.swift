// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The period in which a presenter is paused (N14) or muted (N15).
struct Suppression: Sendable {
    /// Its beginning, by the clock of ``SuppressionIndex``.
    var began: UInt64
    /// Whether it missed an event that the clock does not count.
    var hasMissed = false
    /// Whether it was not told of a move of its item (N15).
    var hasMissedMove = false
}

/// The time of the last events by party; a presenter does not miss its own events (P5).
private struct MissedEvents: Sendable {
    /// The number of parties that are distinguished.
    private static let most = 16

    private var deeds: [(doer: Party, moment: UInt64)] = []
    /// The last event of all other parties.
    private var byOthers: UInt64 = 0

    mutating func note(_ moment: UInt64, by doer: Party?) {
        guard let doer else { return byOthers = moment }
        if let known = deeds.firstIndex(where: { $0.doer.isAlike(doer) }) {
            deeds.remove(at: known)
        } else if deeds.count >= Self.most {
            byOthers = max(byOthers, deeds.removeFirst().moment)
        }
        deeds.append((doer, moment))
    }

    func hasAnything(since moment: UInt64, but isOwn: (Party) -> Bool) -> Bool {
        byOthers > moment || deeds.contains { $0.moment > moment && !isOwn($0.doer) }
    }
}

extension Party {
    /// Whether the accesses of both parties are own accesses of the same presenters (P5).
    fileprivate func isAlike(_ other: Party) -> Bool {
        purpose == other.purpose && process == other.process
            && partner?.process == other.partner?.process
    }
}

/// The presenters that are told of no names below their item (N14); a second index has those told of nothing (N15).
///
/// An event skips them without a visit to each, which is the purpose of a pause.
struct SuppressionIndex: Sendable {
    /// The presenters of an item that are still told, sorted; only for items that also have a paused presenter.
    private(set) var notified: [ItemID: [PresenterID]] = [:]
    /// The events that paused presenters of an item missed.
    private var missed: [ItemID: MissedEvents] = [:]
    /// The number of events that any of them missed.
    private(set) var clock: UInt64 = 0

    var isEmpty: Bool { notified.isEmpty }
    var count: Int { notified.count + missed.count }

    /// Whether an event since a moment was not a presenter's own.
    func hasMissed(
        _ item: ItemID, since moment: UInt64, but isOwn: (Party) -> Bool = { _ in false }
    ) -> Bool {
        missed[item]?.hasAnything(since: moment, but: isOwn) ?? false
    }

    /// Notes an event of an item, or below it.
    mutating func noteHappening(below item: ItemID, by doer: Party? = nil) {
        guard notified[item] != nil else { return }
        clock += 1
        missed[item, default: MissedEvents()].note(clock, by: doer)
    }

    mutating func entered(
        _ id: PresenterID, at item: ItemID, among presented: [PresenterID], isPaused: Bool
    ) {
        if isPaused { return pause([id], at: item, among: presented) }
        notified[item]?.insertSorted(id)
    }

    mutating func left(_ id: PresenterID, _ item: ItemID, among presented: [PresenterID]) {
        notified[item]?.removeSorted(id)
        forgetIfNobodyIsPaused(at: item, among: presented)
    }

    mutating func pause(_ ids: Set<PresenterID>, at item: ItemID, among presented: [PresenterID]) {
        notified[item] = (notified[item] ?? presented).filter { !ids.contains($0) }
    }

    mutating func resume(_ ids: Set<PresenterID>, at item: ItemID, among presented: [PresenterID]) {
        guard let others = notified[item].map(Set.init) else { return }
        notified[item] = presented.filter { others.contains($0) || ids.contains($0) }
        forgetIfNobodyIsPaused(at: item, among: presented)
    }

    private mutating func forgetIfNobodyIsPaused(at item: ItemID, among presented: [PresenterID]) {
        guard notified[item]?.count == presented.count else { return }
        (notified[item], missed[item]) = (nil, nil)
    }
}

/// How presenters are paused and resumed (N14).
extension Arbiter {
    mutating func pause(_ ids: [PresenterID]) {
        var shown: [ItemID: Set<PresenterID>] = [:]
        for id in ids {
            guard let record = registry.records[id], record.pause == nil else { continue }
            registry.beginPause(of: id)
            guard let item = record.item else { continue }
            shown[item, default: []].insert(id)
            guard tree.isDirectory(item), !tree.isPackage(item) else { continue }
            noteOutdated(id)
            for accessSession in record.accessSessions
            where registry.updateAccessSession(accessSession, { $0.nameEvents.forgetNames(but: item) })
                ?? false
            {
                registry.updateRecord(id) { $0.pause?.hasMissed = true }
            }
        }
        for (item, some) in shown {
            registry.pause(some, at: item)
        }
    }

    mutating func resume(
        _ ids: [PresenterID], behind: Set<PresenterID>, told: Set<PresenterID>, _ effects: inout [Effect]
    ) {
        var shown: [ItemID: Set<PresenterID>] = [:]
        for id in ids.sorted() {
            guard let record = registry.records[id], record.pause != nil else { continue }
            let hasMissed = registry.hasMissed(id) || behind.contains(id)
            registry.updateRecord(id) { $0.pause = nil }
            guard let item = record.item else { continue }
            shown[item, default: []].insert(id)
            guard hasMissed else { continue }
            if tree.isDirectory(item), !tree.isPackage(item) { noteOutdated(id) }
            if !told.contains(id) { tellOfGap(record, &effects) }
        }
        for (item, some) in shown {
            registry.resume(some, at: item)
        }
    }

    /// P24: Marks a presenter as outdated if it implements no notice of changes.
    mutating func noteOutdated(_ id: PresenterID) {
        registry.updateRecord(id) { if !$0.hearsOfChanges { $0.isOutdated = true } }
    }

    /// Tells a presenter that something happened, without details.
    mutating func tellOfGap(_ record: PresenterRecord, _ effects: inout [Effect]) {
        let kinds: [PresenterNotice] = [.subitemDidChange, .subitemDidAppear, .subitemDidMove]
        guard let kind = kinds.first(where: { record.presenter.messages.contains(PresenterMessages($0)) })
        else { return }
        let cause = Cause(.nobody, .write(.updating))
        effects.append(.tell(Notice(kind, to: record.id, in: registry.makeAccessSessionID(), cause)))
    }

    /// The presenters of a directory that are told of names in it.
    func listeners(above directory: ItemID) -> [PresenterID] {
        if tree.isPackage(directory) { return registry.unmutedPresenters(to: directory) }
        return registry.pauses.notified[directory] ?? registry.presented[directory] ?? []
    }

    /// Notes an event that paused and muted presenters will be told of later.
    mutating func noteMissed(_ item: ItemID, at place: Place, by doer: Party) {
        if registry.pauses.isEmpty, registry.mutes.isEmpty { return }
        registry.noteMissed(of: item, by: doer)
        noteMissed(below: Set(tree.ancestors(of: item, at: place)), by: doer)
    }

    mutating func noteMissed(below directories: Set<ItemID>, by doer: Party) {
        if registry.pauses.isEmpty, registry.mutes.isEmpty { return }
        for directory in directories {
            if tree.isPackage(directory) {
                registry.noteMissed(of: directory, by: doer)
            } else {
                registry.noteMissed(in: directory)
            }
        }
    }
}
