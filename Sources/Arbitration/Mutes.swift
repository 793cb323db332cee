// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How presenters are muted and unmuted (N15).
extension Arbiter {
    mutating func mute(_ ids: [PresenterID]) {
        var shown: [ItemID: Set<PresenterID>] = [:]
        for id in ids {
            guard let record = desk.records[id], record.mute == nil else { continue }
            desk.records[id]?.mute = Pause(began: desk.mutes.clock)
            guard let item = record.item else { continue }
            shown[item, default: []].insert(id)
            desk.spokesmen.enter(record, at: item)
        }
        for (item, some) in shown { desk.mutes.pause(some, at: item, among: desk.presented[item] ?? []) }
    }

    mutating func unmute(_ ids: [PresenterID], _ effects: inout [Effect]) {
        var shown: [ItemID: Set<PresenterID>] = [:]
        for id in ids.sorted() {
            guard let record = desk.records[id], let mute = record.mute else { continue }
            let hasMissed = desk.hasMissedOwn(id)
            desk.records[id]?.mute = nil
            guard let item = record.item else { continue }
            shown[item, default: []].insert(id)
            desk.spokesmen.leave(record, item)
            if mute.hasMissedMove { tellOfMiss(.didMove, record, &effects) }
            if hasMissed { tellOfMisses(of: item, record, &effects) }
        }
        for (item, some) in shown { desk.mutes.resume(some, at: item, among: desk.presented[item] ?? []) }
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
        effects.append(.tell(Notice(kind, to: record.id, in: desk.makeTurnID(), cause)))
    }
}

extension PresenterDesk {
    /// The presenters of an item that are not muted.
    func attentive(to item: ItemID) -> [PresenterID] { mutes.listening[item] ?? presented[item] ?? [] }

    func isMuted(_ id: PresenterID) -> Bool { !mutes.isEmpty && records[id]?.mute != nil }

    /// The presenters of an item that a claim on it may concern; of those that are muted one.
    func forEachConcerned(
        by item: ItemID, where isMeant: (PresenterID) -> Bool = { _ in true }, _ body: (PresenterID) -> Void
    ) {
        for id in attentive(to: item) where isMeant(id) { body(id) }
        guard mutes.listening[item] != nil else { return }
        let muted = presented[item]?.first { records[$0]?.mute != nil && isMeant($0) }
        if let muted { body(muted) }
    }

    /// Whether something has happened to what a muted presenter shows that was not its own doing (P5).
    func hasMissedOwn(_ id: PresenterID) -> Bool {
        guard let record = records[id], let mute = record.mute else { return false }
        if mute.hasMissed { return true }
        guard let item = record.item else { return false }
        return mutes.hasMissed(item, since: mute.began) { $0.isOwn(of: record.presenter.party) }
    }
}

/// The muted presenters of each item that may have work unsaved, by program (N15).
///
/// One of them stands for all, and it is found without a look at each.
struct Spokesmen: Sendable {
    /// P5 spares a party all of a program's presenters, or none.
    private struct Program: Hashable {
        let processes: [ProcessID?]
        let terminals: [Int32]

        init(_ party: Party) {
            let both = [party, party.partner].compactMap { $0 }
            processes = both.map(\.process)
            terminals = both.map { $0.terminals.first ?? 0 }
        }
    }

    /// Sorted.
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

    /// The lowest one that is meant, of programs that are not spared.
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
    /// P12: what a claim writes of what muted presenters show. One of each item stands for all.
    func passedOverMuted(by claim: Claim, _ party: Party) -> [(presenter: PresenterID, item: ItemID)] {
        if desk.spokesmen.isEmpty { return [] }
        var passed: [(PresenterID, ItemID)] = []
        claim.forEachPart { part in
            guard part.access.isWrite else { return }
            let isCreation = claim.nature == .handle && part.access == .write(.forReplacing)
            if !isCreation, let id = spokesman(of: part.item, for: party, { isOfThisName($0, part) }) {
                passed.append((id, part.item))
            }
            guard tree.packages > 0 else { return }
            for package in tree.ancestors(of: part.item, at: part.place) where tree.isPackage(package) {
                if let id = spokesman(of: package, for: party) { passed.append((id, part.item)) }
            }
        }
        return passed
    }

    private func spokesman(
        of item: ItemID, for party: Party, _ isMeant: (PresenterID) -> Bool = { _ in true }
    ) -> PresenterID? {
        desk.spokesmen.first(
            of: item,
            unless: { id in desk.records[id].map { isSpared($0.presenter.party, by: party) } ?? true },
            where: { id in
                guard let record = desk.records[id] else { return false }
                return !isOwn(party, record.presenter.party) && isMeant(id)
            })
    }
}
