// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Changes the items, names and places of claims.
extension NaiveArbiter {
    /// R1: when a document's file is replaced, the claims of open handles stay with the old file, which is now an orphan.
    mutating func moveHandles(_ document: ItemID, _ orphan: ItemID) {
        for index in claims.indices where claims[index].isHeld && claims[index].nature == .handle {
            changeParts(of: index, on: document) { ClaimRequest.Part(orphan, $0.access) }
        }
    }

    /// R2, P11: when a new file becomes the document in a save, the new file's claims and presenters move to the document.
    mutating func replace(_ document: ItemID, _ incoming: ItemID, _ orphan: ItemID?) {
        if let orphan { moveHandles(document, orphan) }
        let left = claims.flatMap(\.parts).first { $0.item == document && $0.place.directory != nil }
        for index in claims.indices {
            changeParts(of: index, on: incoming) {
                ClaimRequest.Part(document, $0.access, at: left?.place ?? $0.place, via: $0.via)
            }
        }
        for index in presenters.indices where presenters[index].item == incoming {
            presenters[index].item = document
        }
    }

    private mutating func changeParts(
        of index: Int, on item: ItemID, _ body: (ClaimRequest.Part) -> ClaimRequest.Part
    ) {
        claims[index].parts = claims[index].parts.map { $0.item == item ? body($0) : $0 }
    }

    /// S7: when a symbolic link gets a new target, waiting claims that follow the link wait for the new target.
    mutating func relink(_ link: ItemID, _ item: ItemID, _ place: Place) {
        for index in claims.indices where !claims[index].isHeld {
            for number in claims[index].parts.indices where claims[index].parts[number].via == link {
                let part = claims[index].parts[number]
                claims[index].parts[number] = ClaimRequest.Part(item, part.access, at: place, via: link)
                if part.item != item { retarget(index, part.item, item) }
            }
        }
    }

    /// Makes a claim choose its presenters a second time, because the claim's new item has other presenters than the old item.
    private mutating func retarget(_ index: Int, _ from: ItemID, _ to: ItemID) {
        effects.append(.retarget(claims[index].id, from: from, to: to))
        claims[index].hasConsulted = false
        (claims[index].ownOf, claims[index].unaskedWritesOfClaim, claims[index].skippedPresenters) = (
            [], [], []
        )
        leaveAccessSessions(index, isOver: false)
    }

    /// S5, S6, N2, N7: records a move. Claims of the item follow it to its new place, and presenters get a notice.
    mutating func noteMove(_ item: ItemID, _ move: Move, _ party: Party, _ claim: ClaimID?) {
        for index in claims.indices {
            let isRetargeted = claims[index].parts.indices.reduce(false) { isRetargeted, number in
                follow(index, number, item, move) || isRetargeted
            }
            guard isRetargeted, let placeholder = move.placeholder else { continue }
            if claims[index].isHeld {
                effects.append(.retarget(claims[index].id, from: item, to: placeholder))
            } else {
                retarget(index, item, placeholder)
            }
        }
        tellMove(item, move, Cause(party, .write(.forMoving)), claim)
        if directories[item] != nil { directories[item]?.parent = move.to.directory }
        for index in presenters.indices where presenters[index].item == item {
            if presenters[index].place.isSameName(as: move.from) { presenters[index].place = move.to }
        }
    }

    /// S6: makes a part of a claim follow a moved item.
    ///
    /// - Returns: whether the part is to replace an item. Such a part follows the name, not the item.
    private mutating func follow(_ index: Int, _ number: Int, _ item: ItemID, _ move: Move) -> Bool {
        let part = claims[index].parts[number]
        guard part.item == item, part.place.isSameName(as: move.from) else { return false }
        let isMaker = claims[index].isHeld && claims[index].nature == .handle
        if part.access == .write(.forReplacing), !isMaker, let placeholder = move.placeholder {
            claims[index].parts[number] = ClaimRequest.Part(placeholder, part.access, at: move.from)
            return true
        }
        claims[index].parts[number] = ClaimRequest.Part(part.item, part.access, at: move.to, via: part.via)
        return false
    }

    private mutating func tellMove(_ item: ItemID, _ move: Move, _ cause: Cause, _ claim: ClaimID?) {
        let old = chain(from: move.from.directory)
        let new = chain(from: move.to.directory)
        noteMissed(above: old + new, by: cause.party)
        let losing = presenters.filter { presenter in
            presenter.item.map { old.contains($0) && !new.contains($0) } ?? false && isTold(presenter)
        }
        reportNameEvents(inside: item, but: move.isSecondHalf ? NaiveName(move.from, item) : nil, to: losing)
        for presenter in presenters {
            guard let shown = presenter.item else { continue }
            if shown == item {
                guard presenter.place.isSameName(as: move.from) else { continue }
                takeBackDeletion(of: item, to: presenter.id)
                if noteMissedMove(presenter, cause.party, claim) { continue }
                note(.moved(item, move), to: presenter, cause, claim)
            } else if old.contains(shown) || new.contains(shown), !isTold(presenter) {
                continue
            } else if old.contains(shown) || new.contains(shown) {
                let seen = NaiveMove(
                    item: item, move: move, cause: cause, isFromInside: old.contains(shown),
                    isToInside: new.contains(shown), isOfDirectory: directories[item] != nil)
                note(.below(.moved(seen)), to: presenter, cause, claim)
            } else if directories[item] != nil, ancestors(of: shown, at: presenter.place).contains(item) {
                if noteMissedMove(presenter, cause.party, claim) { continue }
                note(.moved(item, move), to: presenter, cause, claim)
            }
        }
    }

    /// N15: if the presenter is muted (it gets no notices of its item), records only that it missed the move. If the move is
    /// the presenter's own, nothing is recorded.
    ///
    /// - Returns: whether the presenter is muted.
    private mutating func noteMissedMove(
        _ presenter: NaivePresenter, _ party: Party, _ claim: ClaimID?
    ) -> Bool {
        guard presenter.isMuted else { return false }
        if isItsOwn(presenter, party, claim) { return true }
        for index in presenters.indices where presenters[index].id == presenter.id {
            presenters[index].hasMissedMove = true
        }
        return true
    }

    private func chain(from directory: ItemID?) -> [ItemID] {
        directory.map { [$0] + ancestors(of: $0, at: Place()) } ?? []
    }
}
