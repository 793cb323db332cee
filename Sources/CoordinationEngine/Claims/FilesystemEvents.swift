// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import Synchronization

// Methods by which the file system reports changes of directories, names and contents.
extension Engine {
    /// Whether a presenter is registered, or an access over the control socket exists. Fast paths read this property,
    /// so it takes no lock.
    package var hasAwareClients: Bool { activeClientsFlag.load(ordering: .relaxed) }

    /// Whether any presenter would be told of an event of an item: a presenter of the item, or of an item above or
    /// below.
    package func hasInterestedPresenter(of item: ItemID, at place: Place) -> Bool {
        withState { $0.arbiter.hasInterestedPresenter(of: item, at: place) }
    }

    /// Whether presenters of a directory above must be asked before a program deletes an item.
    package func mustAskPresentersAbove(aboutDeletionOf item: ItemID, at place: Place, by party: Party)
        -> Bool
    {
        hasAwareClients
            && withState {
                $0.arbiter.mustAskPresentersAbove(aboutDeletionOf: item, at: place, by: party)
            }
    }

    /// Whether a program works for a presenter that would be told of an event of an item.
    package func hasInterestedPresenter(of item: ItemID, at place: Place, by party: Party) -> Bool {
        withState { $0.arbiter.hasInterestedPresenter(of: item, at: place, by: party) }
    }

    /// Whether an aware access is about to replace an item. If the item is moved away, such an access stays with the
    /// name.
    package func awaitsReplacement(_ item: ItemID) -> Bool {
        hasAwareClients && withState { $0.arbiter.awaitsReplacement(item) }
    }

    package func isPresented(_ item: ItemID) -> Bool { withState { $0.arbiter.isPresented(item) } }

    /// Whether a program works for a presenter of an item; for example, the program is a child of an editor.
    package func isPresented(_ item: ItemID, by party: Party) -> Bool {
        withState { $0.arbiter.isPresented(item, by: party) }
    }

    /// Whether any item that is directly in a directory is presented.
    package func isAnythingPresented(in directory: ItemID) -> Bool {
        hasAwareClients && withState { $0.arbiter.isAnythingPresented(in: directory) }
    }

    /// The claimants of the claims on an item, the oldest first.
    package func claimants(on item: ItemID, atMost limit: Int) -> [any Claimant] {
        withState { state in
            state.arbiter.claims(on: item, atMost: limit).compactMap { state.claims[$0]?.claimant }
        }
    }

    /// Whether a party works for a presenter of an item that has not answered all its questions.
    package func owesAnswer(_ party: Party, about item: ItemID) -> Bool {
        withState { $0.arbiter.owesAnswer(party, about: item) }
    }

    /// Reports that a directory exists, or has become or ceased to be a package. The parent directory must be reported
    /// before the directory.
    package func place(_ item: ItemID, _ directory: DirectoryInfo) { submit(.placed(item, directory)) }

    /// Reports that a directory is gone, so that no later call contains the number of the directory or of an item in
    /// it.
    package func forget(_ directory: ItemID) { submit(.forgotten(directory)) }

    package func noteCreation(of item: ItemID, at place: Place, by party: Party, under claim: ClaimID? = nil)
    {
        let (party, claim) = author(party, claim, of: item, at: place)
        // If a deletion of this item was postponed, the deletion is reported before the creation.
        if let (former, access) = takeDeletion(of: item) {
            submit(.deleted(item, at: former.place, by: former.party, under: access))
        }
        submit(.created(item, at: place, by: party, under: claim))
    }

    /// Reports that contents or attributes were written. If `isOngoing` is true, the program perhaps writes more
    /// (`ArbiterEvent.written`); else see `ArbiterEvent.changed`.
    ///
    /// A file can be renamed while it is closed. So `isThere` is called under the engine's lock, and returns whether
    /// the file still has this name. If not, nothing is reported. `isThere` is allowed to lock only nodes. Returns the
    /// result of `isThere`.
    @discardableResult
    package func noteChange(
        of item: ItemID, at place: Place, by party: Party, _ access: Access, under claim: ClaimID?,
        stamp: UInt64, isOngoing: Bool = false, ifThere isThere: () -> Bool = { true }
    ) -> Bool {
        let (party, claim) = author(party, claim, of: item, at: place)
        let cause = Cause(party, access)
        let event: ArbiterEvent =
            isOngoing
            ? .written(item, at: place, cause, under: claim, stamp: stamp)
            : .changed(item, at: place, cause, under: claim, stamp: stamp)
        return dispatch(event, if: isThere)
    }

    /// Reports that an item has a new name or is in another directory.
    ///
    /// `told` is called under the engine's lock before presenters are told of the new name. It can be called more than
    /// once, and is allowed to lock only nodes.
    package func noteMove(
        of item: ItemID, _ move: Move, by party: Party, under claim: ClaimID? = nil, told: () -> Void = {}
    ) {
        let (party, claim) = author(party, claim, of: item, at: move.from)
        _ = takeDeletion(of: item)
        dispatch(.moved(item, move, by: party, under: claim), renamed: told)
    }

    package func noteDeletion(of item: ItemID, at place: Place, by party: Party, under claim: ClaimID? = nil)
    {
        let (party, claim) = author(party, claim, of: item, at: place)
        if postponeDeletion(of: item, at: place, by: party, within: claim) { return }
        submit(.deleted(item, at: place, by: party, under: claim))
    }

    /// Reports that the removal of a name, which looked like a step of a save, was in fact a deletion of the item.
    package func noteLoss(of item: ItemID, at place: Place, by party: Party) {
        let (party, claim) = author(party, nil, of: item, at: place)
        if postponeDeletion(of: item, at: place, by: party, within: claim) { return }
        submit(.lost(item, at: place, by: party))
    }

    /// Reports the deletion of an item that a program removed a moment ago, outside of any aware access.
    ///
    /// `isUndecided` is called under the engine's lock. If it returns false, an earlier event has settled what happened
    /// to the item, and the deletion is not reported. The closure is allowed to take only a lock of its own.
    package func noteLoss(of item: ItemID, at place: Place, by party: Party, if isUndecided: () -> Bool) {
        dispatch(.lost(item, at: place, by: party), if: isUndecided)
    }

    /// Reports that the store has gained or lost a version of an item, or that a conflict version was resolved.
    package func noteVersion(_ change: VersionChange, of item: ItemID, at place: Place, _ cause: Cause) {
        submit(.versioned(item, at: place, change, cause))
    }

    /// Returns the party and the claim to report for a change. If a program makes the change within an aware access,
    /// they are the party and the claim of this access.
    private func author(
        _ party: Party, _ claim: ClaimID?, of item: ItemID, at place: Place
    ) -> (Party, ClaimID?) {
        guard hasAwareClients, party.process != nil else { return (party, claim) }
        let around = withState { $0.arbiter.enclosingWrite(of: party, on: item, at: place) }
        return around.map { ($0.by, $0.claim) } ?? (party, claim)
    }

    /// Whether a change of the item by a program belongs to an aware access of the program.
    package func isWithinAccess(_ party: Party, of item: ItemID, at place: Place) -> Bool {
        author(party, nil, of: item, at: place).1 != nil
    }

    /// Reports that a symbolic link has another target from now on.
    package func noteLinkTarget(of link: ItemID, to item: ItemID, at place: Place) {
        submit(.relinked(link, to: item, at: place))
    }
}
