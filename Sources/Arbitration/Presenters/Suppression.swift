// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Why a presenter hears nothing of names for a while (N14).
struct Suppression: Sendable {
    /// By the clock of ``SuppressionIndex``.
    var began: UInt64
    /// Whether something was kept from it that the clock does not know of.
    var hasMissed = false
    /// Whether it was not told of another name of what it shows (N15).
    var hasMissedMove = false
}

/// When something happened last, and by which party: a presenter misses nothing of its own (P5).
private struct MissedEvents: Sendable {
    /// So many are told apart.
    private static let most = 16

    private var deeds: [(doer: Party, moment: UInt64)] = []
    /// By parties that are not told apart.
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
    /// Whether what both do is own to the same presenters (P5).
    fileprivate func isAlike(_ other: Party) -> Bool {
        purpose == other.purpose && process == other.process
            && partner?.process == other.partner?.process
    }
}

/// Presenters that are told of no names below what they show (N14); or, in another list of this kind, of nothing that happens to it (N15).
///
/// An event passes them by without a look at each of them: that is what a pause is for.
struct SuppressionIndex: Sendable {
    /// By what is shown, those who are told; only where a paused presenter shows it as well. Sorted.
    private(set) var notified: [ItemID: [PresenterID]] = [:]
    /// What happened below what paused presenters show.
    private var missed: [ItemID: MissedEvents] = [:]
    /// Counts what happened below any of them.
    private(set) var clock: UInt64 = 0

    var isEmpty: Bool { notified.isEmpty }
    var count: Int { notified.count + missed.count }

    /// Whether anything has happened since then that was not the doing of a presenter.
    func hasMissed(
        _ item: ItemID, since moment: UInt64, but isOwn: (Party) -> Bool = { _ in false }
    ) -> Bool {
        missed[item]?.hasAnything(since: moment, but: isOwn) ?? false
    }

    /// Something happened below an item, or to it.
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
            registry.records[id]?.pause = Suppression(began: registry.pauses.clock)
            guard let item = record.item else { continue }
            shown[item, default: []].insert(id)
            guard tree.isDirectory(item), !tree.isPackage(item) else { continue }
            noteOutdated(id)
            for accessSession in record.accessSessions
            where registry.accessSessions[accessSession]?.nameEvents.forgetNames(but: item) ?? false {
                registry.records[id]?.pause?.hasMissed = true
            }
        }
        for (item, some) in shown {
            registry.pauses.pause(some, at: item, among: registry.presented[item] ?? [])
        }
    }

    mutating func resume(
        _ ids: [PresenterID], behind: Set<PresenterID>, told: Set<PresenterID>, _ effects: inout [Effect]
    ) {
        var shown: [ItemID: Set<PresenterID>] = [:]
        for id in ids.sorted() {
            guard let record = registry.records[id], record.pause != nil else { continue }
            let hasMissed = registry.hasMissed(id) || behind.contains(id)
            registry.records[id]?.pause = nil
            guard let item = record.item else { continue }
            shown[item, default: []].insert(id)
            guard hasMissed else { continue }
            if tree.isDirectory(item), !tree.isPackage(item) { noteOutdated(id) }
            if !told.contains(id) { tellOfGap(record, &effects) }
        }
        for (item, some) in shown {
            registry.pauses.resume(some, at: item, among: registry.presented[item] ?? [])
        }
    }

    /// P24: what is written below it meanwhile it cannot be told, nor could it be otherwise.
    mutating func noteOutdated(_ id: PresenterID) {
        if !(registry.records[id]?.hearsOfChanges ?? true) { registry.records[id]?.isOutdated = true }
    }

    /// That something happened, and not what.
    mutating func tellOfGap(_ record: PresenterRecord, _ effects: inout [Effect]) {
        let kinds: [PresenterNotice] = [.subitemDidChange, .subitemDidAppear, .subitemDidMove]
        guard let kind = kinds.first(where: { record.presenter.messages.contains(PresenterMessages($0)) })
        else { return }
        let cause = Cause(.nobody, .write(.updating))
        effects.append(.tell(Notice(kind, to: record.id, in: registry.makeAccessSessionID(), cause)))
    }

    /// Of those who show a directory above, those who are told of names in it.
    func listeners(above directory: ItemID) -> [PresenterID] {
        if tree.isPackage(directory) { return registry.unmutedPresenters(to: directory) }
        return registry.pauses.notified[directory] ?? registry.presented[directory] ?? []
    }

    /// Those who are paused or muted will be told that something happened at a place.
    mutating func noteMissed(_ item: ItemID, at place: Place, by doer: Party) {
        if registry.pauses.isEmpty, registry.mutes.isEmpty { return }
        registry.mutes.noteHappening(below: item, by: doer)
        noteMissed(below: Set(tree.ancestors(of: item, at: place)), by: doer)
    }

    mutating func noteMissed(below directories: Set<ItemID>, by doer: Party) {
        if registry.pauses.isEmpty, registry.mutes.isEmpty { return }
        for directory in directories {
            if tree.isPackage(directory) {
                registry.mutes.noteHappening(below: directory, by: doer)
            } else {
                registry.pauses.noteHappening(below: directory)
            }
        }
    }
}
