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
        return withState { state in
            state.addUndecided(UndecidedDeletion(item: item, place: place, party: party), within: claim)
        }
    }

    /// Takes the undecided deletion of an item that was moved or created again, and the access within which it
    /// happened.
    func takeDeletion(of item: ItemID) -> (UndecidedDeletion, within: ClaimID)? {
        guard hasAwareClients else { return nil }
        return withState { $0.takeUndecided(of: item) }
    }

    /// Another file is the document now; the deletion may name either item.
    func noteRestoration(of document: ItemID, or incoming: ItemID) {
        guard hasAwareClients else { return }
        withState { $0.restoreUndecided(of: document, or: incoming) }
    }
}

extension Engine.State {
    /// Returns false if the access may announce no move of the item: then the deletion is final.
    mutating func addUndecided(_ deletion: UndecidedDeletion, within claim: ClaimID) -> Bool {
        guard arbiter.mayMove(claim, deletion.item) else { return false }
        // An access has few items, and each is listed once.
        undecidedDeletions[claim, default: []].removeAll { $0.item == deletion.item }
        undecidedDeletions[claim]?.append(deletion)
        return true
    }

    mutating func takeUndecided(of item: ItemID) -> (UndecidedDeletion, within: ClaimID)? {
        if undecidedDeletions.isEmpty { return nil }
        for (claim, deletions) in undecidedDeletions {
            guard let index = deletions.firstIndex(where: { $0.item == item }) else { continue }
            undecidedDeletions[claim]?.remove(at: index)
            if deletions.count == 1 { undecidedDeletions[claim] = nil }
            return (deletions[index], claim)
        }
        return nil
    }

    mutating func restoreUndecided(of document: ItemID, or incoming: ItemID) {
        if undecidedDeletions.isEmpty { return }
        for claim in undecidedDeletions.keys {
            undecidedDeletions[claim] = undecidedDeletions[claim]?.map { deletion in
                guard deletion.item == document || deletion.item == incoming else { return deletion }
                var deletion = deletion
                (deletion.item, deletion.isRestored) = (document, true)
                return deletion
            }
        }
    }

    /// An access is about to end: its undecided deletions are final.
    mutating func decideDeletions(within claim: ClaimID, at now: Instant) {
        if undecidedDeletions.isEmpty { return }
        for deletion in undecidedDeletions.removeValue(forKey: claim) ?? [] where !deletion.isRestored {
            arbiter.handle(
                .lost(deletion.item, at: deletion.place, by: deletion.party), at: now, into: &effects)
        }
    }
}
