// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import LinuxSystem
import Synchronization

/// A deletion within an access that may still announce a move of the document (P15). It is reported only when that
/// access ends.
struct UndecidedDeletion {
    var item: ItemID
    let place: Place
    let party: Party
    /// Another file is the document now.
    var isRestored = false
}

extension Engine {
    /// Whether the notice of a deletion must wait; `claim` is the access within which it happened.
    func postponeDeletion(
        of item: ItemID, at place: Place, by party: Party, within claim: ClaimID?
    ) -> Bool {
        guard let claim else { return false }
        return state.withLock { state in
            guard state.arbiter.mayMove(claim, item) else { return false }
            // An access has few items, and each is listed once.
            state.undecidedDeletions[claim, default: []].removeAll { $0.item == item }
            state.undecidedDeletions[claim]?.append(UndecidedDeletion(item: item, place: place, party: party))
            return true
        }
    }

    /// Takes the undecided deletion of an item that was moved or created again, and the access within which it
    /// happened.
    func takeDeletion(of item: ItemID) -> (UndecidedDeletion, within: ClaimID)? {
        guard hasAwareClients else { return nil }
        return state.withLock { state in
            if state.undecidedDeletions.isEmpty { return nil }
            for (claim, deletions) in state.undecidedDeletions {
                guard let index = deletions.firstIndex(where: { $0.item == item }) else { continue }
                state.undecidedDeletions[claim]?.remove(at: index)
                if deletions.count == 1 { state.undecidedDeletions[claim] = nil }
                return (deletions[index], claim)
            }
            return nil
        }
    }

    /// Another file is the document now; the deletion may name either item.
    func noteRestoration(of document: ItemID, or incoming: ItemID) {
        guard hasAwareClients else { return }
        state.withLock { state in
            if state.undecidedDeletions.isEmpty { return }
            for claim in state.undecidedDeletions.keys {
                state.undecidedDeletions[claim] = state.undecidedDeletions[claim]?.map { deletion in
                    guard deletion.item == document || deletion.item == incoming else { return deletion }
                    var deletion = deletion
                    (deletion.item, deletion.isRestored) = (document, true)
                    return deletion
                }
            }
        }
    }
}

extension Engine.State {
    /// An access is about to end: its undecided deletions are final.
    mutating func decideDeletions(within claim: ClaimID, at now: Instant) {
        if undecidedDeletions.isEmpty { return }
        for deletion in undecidedDeletions.removeValue(forKey: claim) ?? [] where !deletion.isRestored {
            arbiter.handle(
                .lost(deletion.item, at: deletion.place, by: deletion.party), at: now, into: &effects)
        }
    }
}
