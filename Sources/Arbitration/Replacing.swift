// SPDX-License-Identifier: Apache-2.0
import Coordination

/// How claims follow the document rather than the inode.
extension Arbiter {
    /// R1.
    mutating func vacate(_ document: ItemID, _ orphan: ItemID) {
        moveHandles(from: document, to: orphan)
        lookAgain(at: document)
        lookAgain(at: orphan)
    }

    /// R2.
    mutating func replace(_ document: ItemID, _ incoming: ItemID, _ orphan: ItemID?) {
        guard document != incoming else { return }
        if let orphan { moveHandles(from: document, to: orphan) }
        for id in everybody(at: incoming) { move(id, from: incoming, to: document) }
        // P11.
        for presenter in desk.presented[incoming] ?? [] {
            desk.leave(presenter)
            desk.enter(presenter, at: document)
        }
        lookAgain(at: document)
        if let orphan { lookAgain(at: orphan) }
    }

    private mutating func moveHandles(from document: ItemID, to orphan: ItemID) {
        guard let held = dockets[document]?.held, document != orphan else { return }
        for id in Array(held.readers) + Array(held.writers) where claims[id]?.nature == .handle {
            move(id, from: document, to: orphan)
        }
    }

    private mutating func move(_ id: ClaimID, from item: ItemID, to other: ItemID) {
        guard var claim = claims[id] else { return }
        leave(claim)
        claim.move(from: item, to: other)
        // I1: those it meets there were not weighed against it when it was granted.
        claim.wentOver = true
        claims[id] = claim
        enter(claim)
    }

    private func everybody(at item: ItemID) -> [ClaimID] {
        guard let docket = dockets[item] else { return [] }
        return Array(docket.held.readers) + Array(docket.held.writers)
            + Array(docket.waiting.readers) + Array(docket.waiting.writers)
    }

    /// R3: reconsiders everybody on an item, whomever they watch.
    private mutating func lookAgain(at item: ItemID) {
        guard let docket = dockets[item] else { return }
        // One who waits for two items carries what happens here over to those who wait at the other (Q3).
        if docket.waiting.readers.contains(where: isOnTwoItems)
            || docket.waiting.writers.contains(where: isOnTwoItems)
        {
            unsettled += waits.keys
        }
        for side in [docket.waiting.readers, docket.waiting.writers] {
            for id in side {
                waits[id]?.watched = nil
                unsettled.append(id)
            }
        }
        for side in [docket.held.readers, docket.held.writers] {
            shaken += side
            newHolders += side
        }
    }

    private func isOnTwoItems(_ id: ClaimID) -> Bool { claims[id]?.second != nil }
}
