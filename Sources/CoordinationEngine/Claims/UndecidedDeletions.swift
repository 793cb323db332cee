// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import LinuxSystem
import Synchronization

/// A deletion within an aware access. Until the access ends, its program can announce that it has moved the document
/// and not deleted it (P15). So presenters are told of the deletion only when the access ends.
struct UndecidedDeletion {
    var item: ItemID
    let place: Place
    let party: Party
    /// Whether another file has become the document since the deletion.
    var isRestored = false
}

extension Engine {
    /// Returns whether presenters must be told of a deletion only when the aware access `claim` ends. If so, stores
    /// the deletion.
    func postponeDeletion(
        of item: ItemID, at place: Place, by party: Party, within claim: ClaimID?
    ) -> Bool {
        guard let claim else { return false }
        return withState { state in
            state.addUndecided(UndecidedDeletion(item: item, place: place, party: party), within: claim)
        }
    }

    /// Called when an item was moved or exists again, so that it was not deleted. Removes and returns the item's stored
    /// deletion, and the access of the deletion.
    func takeDeletion(of item: ItemID) -> (UndecidedDeletion, within: ClaimID)? {
        guard hasAwareClients else { return nil }
        return withState { $0.takeUndecided(of: item) }
    }

    /// Notes that another file has become the document. A stored deletion can be of the document or of the incoming
    /// item.
    func noteRestoration(of document: ItemID, or incoming: ItemID) {
        guard hasAwareClients else { return }
        withState { $0.restoreUndecided(of: document, or: incoming) }
    }
}

extension Engine.State {
    /// Stores a deletion. Returns false if the access can announce no move of the item, so that the deletion is final.
    mutating func addUndecided(_ deletion: UndecidedDeletion, within claim: ClaimID) -> Bool {
        guard arbiter.mayMove(claim, deletion.item) else { return false }
        // Each item is in the list only once. An access concerns only few items, so a list is fast enough.
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

    /// Reports the stored deletions of an access that is about to end, because they are final now.
    mutating func decideDeletions(within claim: ClaimID, at now: Instant) {
        if undecidedDeletions.isEmpty { return }
        for deletion in undecidedDeletions.removeValue(forKey: claim) ?? [] where !deletion.isRestored {
            arbiter.handle(
                .lost(deletion.item, at: deletion.place, by: deletion.party), at: now, into: &effects)
        }
    }
}
