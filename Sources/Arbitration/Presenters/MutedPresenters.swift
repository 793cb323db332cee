// SPDX-License-Identifier: Apache-2.0
import Coordination

/// N15: How presenters are muted and unmuted. A muted presenter is not asked, and is told nothing of its item.
extension Arbiter {
    mutating func mute(_ ids: [PresenterID]) {
        var shown: [ItemID: Set<PresenterID>] = [:]
        for id in ids {
            guard let record = registry.records[id], record.mute == nil else { continue }
            registry.beginMute(of: record)
            guard let item = record.item else { continue }
            shown[item, default: []].insert(id)
        }
        for (item, some) in shown {
            registry.mute(some, at: item)
        }
    }

    mutating func unmute(_ ids: [PresenterID], _ effects: inout [Effect]) {
        var shown: [ItemID: Set<PresenterID>] = [:]
        for id in ids.sorted() {
            guard let record = registry.records[id], let mute = record.mute else { continue }
            let hasMissed = registry.hasMissedOwn(id)
            registry.endMute(of: record)
            guard let item = record.item else { continue }
            shown[item, default: []].insert(id)
            if mute.hasMissedMove { tellOfMiss(.didMove, record, &effects) }
            if hasMissed { tellOfMisses(of: item, record, &effects) }
        }
        for (item, some) in shown {
            registry.unmute(some, at: item)
        }
    }

    private mutating func tellOfMisses(
        of item: ItemID, _ record: PresenterRecord, _ effects: inout [Effect]
    ) {
        noteOutdated(record.id)
        if tree.isDirectory(item) {
            tellOfGap(record, &effects)
        } else {
            tellOfMiss(.didChange, record, &effects)
        }
    }

    private mutating func tellOfMiss(
        _ kind: PresenterNotice, _ record: PresenterRecord, _ effects: inout [Effect]
    ) {
        guard record.presenter.messages.contains(PresenterMessages(kind)) else { return }
        let cause = Cause(.nobody, .write(kind == .didMove ? .forMoving : .updating))
        effects.append(.tell(Notice(kind, to: record.id, in: registry.makeAccessSessionID(), cause)))
    }
}

extension PresenterRegistry {
    /// The presenters of an item that are not muted.
    func unmutedPresenters(to item: ItemID) -> [PresenterID] { mutes.notified[item] ?? presented[item] ?? [] }

    func isMuted(_ id: PresenterID) -> Bool { !mutes.isEmpty && records[id]?.mute != nil }

    /// Calls the body with the presenters that a claim on an item may concern: with all unmuted presenters, and with
    /// one muted presenter.
    func forEachConcerned(
        by item: ItemID, where isMeant: (PresenterID) -> Bool = { _ in true }, _ body: (PresenterID) -> Void
    ) {
        for id in unmutedPresenters(to: item) where isMeant(id) { body(id) }
        guard mutes.notified[item] != nil else { return }
        let muted = presented[item]?.first { records[$0]?.mute != nil && isMeant($0) }
        if let muted { body(muted) }
    }

    /// P5: Whether a muted presenter has missed an event of its item that another program caused.
    func hasMissedOwn(_ id: PresenterID) -> Bool {
        guard let record = records[id], let mute = record.mute else { return false }
        if mute.hasMissed { return true }
        guard let item = record.item else { return false }
        return mutes.hasMissed(item, since: mute.began) { $0.isOwn(of: record.presenter.party) }
    }
}

/// N15: The muted presenters of each item that may have unsaved work, by their program.
///
/// A grant lists only one of these presenters. By these lists, the arbiter finds this presenter without a visit to each
/// presenter.
struct MutedRepresentatives: Sendable {
    /// P5: A program with presenters. A party either asks all presenters of one program, or none of them.
    private struct Program: Hashable {
        let processes: [ProcessID?]
        let terminals: [Int32]

        init(_ party: Party) {
            let both = [party, party.partner].compactMap { $0 }
            processes = both.map(\.process)
            terminals = both.map { $0.terminals.first ?? 0 }
        }
    }

    /// For each item and program, the presenters in the order of their numbers.
    private var lists: [ItemID: [Program: [PresenterID]]] = [:]

    var isEmpty: Bool { lists.isEmpty }
    var count: Int { lists.count }

    mutating func enter(_ record: PresenterRecord, at item: ItemID) {
        guard record.answersWriters else { return }
        lists[item, default: [:]][Program(record.presenter.party), default: []].insertSorted(record.id)
    }

    mutating func leave(_ record: PresenterRecord, _ item: ItemID) {
        guard record.answersWriters, lists[item] != nil else { return }
        let program = Program(record.presenter.party)
        lists[item]?[program]?.removeSorted(record.id)
        if lists[item]?[program]?.isEmpty ?? false { lists[item]?[program] = nil }
        if lists[item]?.isEmpty ?? false { lists[item] = nil }
    }

    /// The matching presenter of an item with the lowest number. Programs that the writer need not ask are left out.
    func first(
        of item: ItemID, unless isSpared: (PresenterID) -> Bool, where isMeant: (PresenterID) -> Bool
    ) -> PresenterID? {
        guard let programs = lists[item]?.values else { return nil }
        return programs.compactMap { ids in
            ids.first.map(isSpared) ?? true ? nil : ids.first(where: isMeant)
        }.min()
    }
}

extension Arbiter {
    /// P12: The items that a claim writes and that have muted presenters with perhaps unsaved work. Each item is paired
    /// with one such presenter.
    func unaskedWritesOfMuted(by claim: Claim, _ party: Party) -> [(presenter: PresenterID, item: ItemID)] {
        if registry.mutedRepresentatives.isEmpty { return [] }
        var writes: [(PresenterID, ItemID)] = []
        claim.forEachPart { part in
            guard part.access.isWrite else { return }
            let isCreation = claim.nature == .handle && part.access == .write(.forReplacing)
            if !isCreation,
                let id = mutedRepresentative(of: part.item, for: party, { isOfThisName($0, part) })
            {
                writes.append((id, part.item))
            }
            guard tree.packages > 0 else { return }
            for package in tree.ancestors(of: part.item, at: part.place) where tree.isPackage(package) {
                if let id = mutedRepresentative(of: package, for: party) { writes.append((id, part.item)) }
            }
        }
        return writes
    }

    private func mutedRepresentative(
        of item: ItemID, for party: Party, _ isMeant: (PresenterID) -> Bool = { _ in true }
    ) -> PresenterID? {
        registry.mutedRepresentatives.first(
            of: item,
            unless: { id in registry.records[id].map { isSpared($0.presenter.party, by: party) } ?? true },
            where: { id in
                guard let record = registry.records[id] else { return false }
                return !isOwn(party, record.presenter.party) && isMeant(id)
            })
    }
}
