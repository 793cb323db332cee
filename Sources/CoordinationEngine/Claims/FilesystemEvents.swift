// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import Synchronization

// Reports of the file system about directories, names and contents.
extension Engine {
    /// Whether there is a presenter or a claim over the socket. The fast paths read it.
    package var hasAwareClients: Bool { activeClientsFlag.load(ordering: .relaxed) }

    /// Whether an event of an item at a place concerns a presenter: of the item, above it or below it.
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

    /// Whether a program works for a presenter that an event of an item at a place concerns.
    package func hasInterestedPresenter(of item: ItemID, at place: Place, by party: Party) -> Bool {
        withState { $0.arbiter.hasInterestedPresenter(of: item, at: place, by: party) }
    }

    /// Whether an aware access to an item belongs to its name, and stays with the name when the item is moved.
    package func awaitsReplacement(_ item: ItemID) -> Bool {
        hasAwareClients && withState { $0.arbiter.awaitsReplacement(item) }
    }

    package func isPresented(_ item: ItemID) -> Bool { withState { $0.arbiter.isPresented(item) } }

    /// Whether a program works for a presenter of an item.
    package func isPresented(_ item: ItemID, by party: Party) -> Bool {
        withState { $0.arbiter.isPresented(item, by: party) }
    }

    /// Whether any item in a directory is presented.
    package func isAnythingPresented(in directory: ItemID) -> Bool {
        hasAwareClients && withState { $0.arbiter.isAnythingPresented(in: directory) }
    }

    /// The claimants of an item, the oldest first.
    package func claimants(on item: ItemID, atMost limit: Int) -> [any Claimant] {
        withState { state in
            state.arbiter.claims(on: item, atMost: limit).compactMap { state.claims[$0]?.claimant }
        }
    }

    /// Whether a party works for a presenter that has not answered a question about an item.
    package func owesAnswer(_ party: Party, about item: ItemID) -> Bool {
        withState { $0.arbiter.owesAnswer(party, about: item) }
    }

    /// A directory exists, after its parent, or has become or ceased to be a package.
    package func place(_ item: ItemID, _ directory: DirectoryInfo) { submit(.placed(item, directory)) }

    /// No later call names a directory or an item in it.
    package func forget(_ directory: ItemID) { submit(.forgotten(directory)) }

    package func noteCreation(of item: ItemID, at place: Place, by party: Party, under claim: ClaimID? = nil)
    {
        let (party, claim) = author(party, claim, of: item, at: place)
        // The name belonged to another item, which is gone.
        if let (former, access) = takeDeletion(of: item) {
            submit(.deleted(item, at: former.place, by: former.party, under: access))
        }
        submit(.created(item, at: place, by: party, under: claim))
    }

    /// Contents or attributes were written; see `ArbiterEvent.changed`, and `ArbiterEvent.written` for programs that
    /// go on.
    ///
    /// A file is closed without a lock of its directory, so it may be renamed at the same time. `isThere` is called
    /// under the engine's lock and returns whether the file still has this name. It takes no locks but those of
    /// nodes. So no notice names a path after the notice of its end. Returns the result of `isThere`.
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

    /// An item has a new name or place.
    ///
    /// `told` is called under the engine's lock before the notice of the new name, maybe more than once. It takes no
    /// locks but those of nodes.
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

    /// The name of an item was vacated as in a save, but the item was deleted.
    package func noteLoss(of item: ItemID, at place: Place, by party: Party) {
        let (party, claim) = author(party, nil, of: item, at: place)
        if postponeDeletion(of: item, at: place, by: party, within: claim) { return }
        submit(.lost(item, at: place, by: party))
    }

    /// Reports the deletion of an item that a program removed a moment ago, within no access.
    ///
    /// `isUndecided` is called under the engine's lock, and takes no other lock but its own. So the notice of the
    /// deletion never follows a notice of a new item with that name.
    package func noteLoss(of item: ItemID, at place: Place, by party: Party, if isUndecided: () -> Bool) {
        dispatch(.lost(item, at: place, by: party), if: isUndecided)
    }

    /// The party and claim to report for a change. Changes by a program that holds an aware access belong to that
    /// access. The presenters of the item are told so, other presenters of the same program included.
    private func author(
        _ party: Party, _ claim: ClaimID?, of item: ItemID, at place: Place
    ) -> (Party, ClaimID?) {
        guard hasAwareClients, party.process != nil else { return (party, claim) }
        let around = withState { $0.arbiter.enclosingWrite(of: party, on: item, at: place) }
        return around.map { ($0.by, $0.claim) } ?? (party, claim)
    }

    /// Whether a program changes an item while it holds an access over the socket to write it.
    package func isWithinAccess(_ party: Party, of item: ItemID, at place: Place) -> Bool {
        author(party, nil, of: item, at: place).1 != nil
    }

    /// The target of a symbolic link has changed.
    package func noteLinkTarget(of link: ItemID, to item: ItemID, at place: Place) {
        submit(.relinked(link, to: item, at: place))
    }
}
