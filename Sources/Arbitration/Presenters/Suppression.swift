// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The time in which a presenter is paused (N14) or muted (N15).
struct Suppression: Sendable {
    /// The value that the event counter of ``SuppressionIndex`` had when the pause or mute began.
    var began: UInt64
    /// Whether the presenter has missed an event that is not counted by the event counter.
    var hasMissed = false
    /// N15: Whether the presenter was not told of a move of its item.
    var hasMissedMove = false
}

/// P5: The last event of each party at one item. The party is stored, because a presenter is not told of its own
/// events.
private struct MissedEvents: Sendable {
    /// The largest number of parties that have an entry of their own.
    private static let most = 16

    private var deeds: [(doer: Party, moment: UInt64)] = []
    /// The last event of all parties without an entry.
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
    /// P5: Whether every presenter treats the two parties in the same manner: as its own program, or as another
    /// program.
    fileprivate func isAlike(_ other: Party) -> Bool {
        purpose == other.purpose && process == other.process
            && partner?.process == other.partner?.process
    }
}

/// N14: The paused presenters, which receive no notices about names below their directory. A second value of this type
/// has the muted presenters (N15).
///
/// The purpose of a pause is that an event takes no time for these presenters, even if they are very many.
struct SuppressionIndex: Sendable {
    /// For each item with a paused presenter: the presenters that are not paused, in the order of their numbers.
    private(set) var notified: [ItemID: [PresenterID]] = [:]
    /// For each item, the events that its paused presenters missed.
    private var missed: [ItemID: MissedEvents] = [:]
    /// Counts the events that at least one paused or muted presenter has missed. Each missed event is stored with the
    /// count at that moment, which serves as the event's time.
    private(set) var clock: UInt64 = 0

    var isEmpty: Bool { notified.isEmpty }
    var count: Int { notified.count + missed.count }

    /// Whether an event of an item since a moment was caused by a party for which `isOwn` returns false.
    func hasMissed(
        _ item: ItemID, since moment: UInt64, but isOwn: (Party) -> Bool = { _ in false }
    ) -> Bool {
        missed[item]?.hasAnything(since: moment, but: isOwn) ?? false
    }

    /// Notes an event of an item, or of an item below.
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

/// N14: How presenters are paused and resumed.
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

    /// P24: If a presenter implements no notice of changes, notes that it does not know the contents any more.
    mutating func noteOutdated(_ id: PresenterID) {
        registry.updateRecord(id) { if !$0.hearsOfChanges { $0.isOutdated = true } }
    }

    /// Sends a presenter a notice that there were events below its directory, without details.
    mutating func tellOfGap(_ record: PresenterRecord, _ effects: inout [Effect]) {
        let kinds: [PresenterNotice] = [.subitemDidChange, .subitemDidAppear, .subitemDidMove]
        guard let kind = kinds.first(where: { record.presenter.messages.contains(PresenterMessages($0)) })
        else { return }
        let cause = Cause(.nobody, .write(.updating))
        effects.append(.tell(Notice(kind, to: record.id, in: registry.makeAccessSessionID(), cause)))
    }

    /// The presenters of a directory that receive notices about events in the directory.
    func listeners(above directory: ItemID) -> [PresenterID] {
        if tree.isPackage(directory) { return registry.unmutedPresenters(to: directory) }
        return registry.pauses.notified[directory] ?? registry.presented[directory] ?? []
    }

    /// Notes an event, so that paused and muted presenters can be told later that they have missed it.
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
