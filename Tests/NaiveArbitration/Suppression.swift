// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Pauses presenters (N14): a paused presenter is told of no names below the directory that it shows.
extension NaiveArbiter {
    mutating func pause(_ ids: [PresenterID]) {
        for index in presenters.indices where ids.contains(presenters[index].id) {
            guard !presenters[index].isPaused else { continue }
            (presenters[index].isPaused, presenters[index].hasMissed) = (true, false)
            guard let item = presenters[index].item, isPausable(item) else { continue }
            noteOutdated(index)
            for accessSession in accessSessions where accessSession.presenter == presenters[index].id {
                let all = accessSession.outcomes.all
                let kept = all.filter { $0.before == item || $0.now == item }
                if kept.count == all.count { continue }
                change(accessSession.id) { $0.keep(kept) }
                let isAnythingLost = all.contains { $0.before != item && $0.now != item && !$0.isTold }
                if isAnythingLost { presenters[index].hasMissed = true }
            }
        }
    }

    mutating func resume(_ ids: [PresenterID], _ behind: Set<PresenterID>, _ told: Set<PresenterID>) {
        for index in presenters.indices where ids.contains(presenters[index].id) {
            let presenter = presenters[index]
            (presenters[index].isPaused, presenters[index].hasMissed) = (false, false)
            let isBehind = presenter.hasMissed || behind.contains(presenter.id)
            guard presenter.isPaused, isBehind, let item = presenter.item else { continue }
            if isPausable(item) { noteOutdated(index) }
            if told.contains(presenter.id) { continue }
            let kinds: [PresenterNotice] = [.subitemDidChange, .subitemDidAppear, .subitemDidMove]
            guard let kind = kinds.first(where: presenter.implements) else { continue }
            let cause = Cause(.nobody, .write(.updating))
            effects.append(.tell(Notice(kind, to: presenter.id, in: newTurn(), cause)))
        }
    }

    /// Whether a presenter above an item gets notices of changes to the item at present. A paused presenter of a directory gets
    /// none, and neither does a muted presenter of a package.
    func isTold(_ presenter: NaivePresenter) -> Bool {
        guard let item = presenter.item else { return true }
        return isPackage(item) ? !presenter.isMuted : !presenter.isPaused
    }

    /// Records that a presenter got no notice of a change. After the pause the presenter is told that it missed something.
    mutating func noteMissed(above directories: [ItemID], by party: Party) {
        for index in presenters.indices where !isTold(presenters[index]) {
            guard let item = presenters[index].item, directories.contains(item) else { continue }
            if isPackage(item) {
                if !presenters[index].isOwn(party) { presenters[index].hasMissedOwn = true }
            } else {
                presenters[index].hasMissed = true
            }
        }
    }

    mutating func noteMissed(of item: ItemID, by party: Party) {
        for index in presenters.indices where presenters[index].item == item && presenters[index].isMuted {
            if !presenters[index].isOwn(party) { presenters[index].hasMissedOwn = true }
        }
    }

    mutating func mute(_ ids: [PresenterID]) {
        for index in presenters.indices where ids.contains(presenters[index].id) && !presenters[index].isMuted
        {
            presenters[index].isMuted = true
            (presenters[index].hasMissedOwn, presenters[index].hasMissedMove) = (false, false)
        }
    }

    mutating func unmute(_ ids: [PresenterID]) {
        for index in presenters.indices where ids.contains(presenters[index].id) && presenters[index].isMuted
        {
            let presenter = presenters[index]
            presenters[index].isMuted = false
            guard let item = presenter.item else { continue }
            if presenter.hasMissedMove { tellOfMiss(.didMove, presenter, .forMoving) }
            guard presenter.hasMissedOwn else { continue }
            noteOutdated(index)
            let kinds: [PresenterNotice] =
                directories[item] != nil
                ? [.subitemDidChange, .subitemDidAppear, .subitemDidMove] : [.didChange]
            if let kind = kinds.first(where: presenter.implements) { tellOfMiss(kind, presenter, .updating) }
        }
    }

    private mutating func tellOfMiss(
        _ kind: PresenterNotice, _ presenter: NaivePresenter, _ option: WritingOption
    ) {
        guard presenter.implements(kind) else { return }
        effects.append(.tell(Notice(kind, to: presenter.id, in: newTurn(), Cause(.nobody, .write(option)))))
    }

    private func isPausable(_ item: ItemID) -> Bool { directories[item] != nil && !isPackage(item) }

    private mutating func noteOutdated(_ index: Int) {
        let presenter = presenters[index]
        if presenter.implements(.didChange) || presenter.implements(.subitemDidChange) { return }
        presenters[index].isOutdated = true
    }
}
