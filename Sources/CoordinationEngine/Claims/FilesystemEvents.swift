// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import Synchronization

// Methods by which the file system reports changes of directories, names and contents.
extension Engine {
    /// Whether a presenter is registered, or an access over the control socket exists. Read on fast paths, without the
    /// lock.
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

    /// Whether an aware access to an item is meant for the item's name. If the item is moved, the access stays with
    /// the name.
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

    /// Reports that a directory exists, or has become or ceased to be a package. Its parent directory must be reported
    /// before.
    package func place(_ item: ItemID, _ directory: DirectoryInfo) { submit(.placed(item, directory)) }

    /// Reports that no later call names a directory or an item in the directory.
    package func forget(_ directory: ItemID) { submit(.forgotten(directory)) }

    package func noteCreation(of item: ItemID, at place: Place, by party: Party, under claim: ClaimID? = nil)
    {
        let (party, claim) = author(party, claim, of: item, at: place)
        // A deletion of this item that was not reported yet is reported first, because the item at the former name is
        // gone.
        if let (former, access) = takeDeletion(of: item) {
            submit(.deleted(item, at: former.place, by: former.party, under: access))
        }
        submit(.created(item, at: place, by: party, under: claim))
    }

    /// Reports that contents or attributes were written. If `isOngoing`, the program may write more
    /// (`ArbiterEvent.written`); else see `ArbiterEvent.changed`.
    ///
    /// A file is closed without a lock on its directory, so it may be renamed at the same time. `isThere` is called
    /// under the engine's lock, and returns whether the file still has this name. So no notice names a path of which
    /// presenters were told that it is gone. `isThere` may lock only nodes. Returns the result of `isThere`.
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
    /// `told` is called under the engine's lock before presenters are told of the new name, maybe more than once. It
    /// may lock only nodes.
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

    /// Reports that a name was removed as if in a save, but that the item was in fact deleted.
    package func noteLoss(of item: ItemID, at place: Place, by party: Party) {
        let (party, claim) = author(party, nil, of: item, at: place)
        if postponeDeletion(of: item, at: place, by: party, within: claim) { return }
        submit(.lost(item, at: place, by: party))
    }

    /// Reports that an item was deleted which a program removed a moment ago, outside of any aware access.
    ///
    /// `isUndecided` is called under the engine's lock, and may take only a lock of its own. So presenters are never
    /// told of the deletion after they were told of a new item with that name.
    package func noteLoss(of item: ItemID, at place: Place, by party: Party, if isUndecided: () -> Bool) {
        dispatch(.lost(item, at: place, by: party), if: isUndecided)
    }

    /// Returns the party and the claim to report for a change. A change by a program within an aware access is
    /// reported as part of that access. Presenters of the item are told so, even other presenters of the same program.
    private func author(
        _ party: Party, _ claim: ClaimID?, of item: ItemID, at place: Place
    ) -> (Party, ClaimID?) {
        guard hasAwareClients, party.process != nil else { return (party, claim) }
        let around = withState { $0.arbiter.enclosingWrite(of: party, on: item, at: place) }
        return around.map { ($0.by, $0.claim) } ?? (party, claim)
    }

    /// Whether a program has an aware access within which it changes this item.
    package func isWithinAccess(_ party: Party, of item: ItemID, at place: Place) -> Bool {
        author(party, nil, of: item, at: place).1 != nil
    }

    /// Reports that a symbolic link leads to another item now.
    package func noteLinkTarget(of link: ItemID, to item: ItemID, at place: Place) {
        submit(.relinked(link, to: item, at: place))
    }
}
