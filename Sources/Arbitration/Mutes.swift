// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How presenters are muted and unmuted (N15).
extension Arbiter {
    mutating func mute(_ ids: [PresenterID]) {
        var shown: [ItemID: Set<PresenterID>] = [:]
        for id in ids {
            guard let record = desk.records[id], record.mute == nil else { continue }
            desk.records[id]?.mute = Pause(began: desk.mutes.clock)
            if let item = record.item { shown[item, default: []].insert(id) }
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

    /// The first muted presenter stands for all of them: what is written is kept for it (P12).
    func spokesman(of item: ItemID) -> PresenterID? {
        guard mutes.listening[item] != nil else { return nil }
        return presented[item]?.first { records[$0]?.mute != nil }
    }

    /// The presenters of an item that a claim on it concerns.
    func concerned(by item: ItemID) -> [PresenterID] {
        let attentive = attentive(to: item)
        return spokesman(of: item).map { attentive + [$0] } ?? attentive
    }

    /// Whether something has happened to what a muted presenter shows.
    func hasMissedOwn(_ id: PresenterID) -> Bool {
        guard let record = records[id], let mute = record.mute else { return false }
        return mute.hasMissed || record.item.map { mutes.hasMissed($0, since: mute.began) } ?? false
    }
}
