// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import Synchronization

// What the file system reports of directories, names and contents.
extension Engine {
    /// Whether anybody presents anything or claims anything over the socket: what the fast paths ask.
    package var hasAwareClients: Bool { activeClientsFlag.load(ordering: .relaxed) }

    /// Whether what happens to an item at a place concerns a presenter: of it, above it or below it.
    package func hasInterestedPresenter(of item: ItemID, at place: Place) -> Bool {
        state.withLock { $0.arbiter.hasInterestedPresenter(of: item, at: place) }
    }

    /// Whether presenters of a directory above would be asked if a program deleted an item.
    package func mustAskPresentersAbove(aboutDeletionOf item: ItemID, at place: Place, by party: Party)
        -> Bool
    {
        hasAwareClients
            && state.withLock {
                $0.arbiter.mustAskPresentersAbove(aboutDeletionOf: item, at: place, by: party)
            }
    }

    /// Whether a program works for a presenter that what happens to an item at a place concerns.
    package func hasInterestedPresenter(of item: ItemID, at place: Place, by party: Party) -> Bool {
        state.withLock { $0.arbiter.hasInterestedPresenter(of: item, at: place, by: party) }
    }

    /// Whether an aware access to an item is meant for its name, and stays with that when the item is moved.
    package func awaitsReplacement(_ item: ItemID) -> Bool {
        hasAwareClients && state.withLock { $0.arbiter.awaitsReplacement(item) }
    }

    package func isPresented(_ item: ItemID) -> Bool { state.withLock { $0.arbiter.isPresented(item) } }

    /// Whether a program works for a presenter of an item.
    package func isPresented(_ item: ItemID, by party: Party) -> Bool {
        state.withLock { $0.arbiter.isPresented(item, by: party) }
    }

    /// Whether anything in a directory is presented.
    package func isAnythingPresented(in directory: ItemID) -> Bool {
        hasAwareClients && state.withLock { $0.arbiter.isAnythingPresented(in: directory) }
    }

    /// Those behind the claims on an item, the oldest of them.
    package func claimants(on item: ItemID, atMost limit: Int) -> [any Claimant] {
        state.withLock { state in
            state.arbiter.claims(on: item, atMost: limit).compactMap { state.claims[$0]?.claimant }
        }
    }

    /// Whether a party works for a presenter of an item that owes somebody an answer.
    package func owesAnswer(_ party: Party, about item: ItemID) -> Bool {
        state.withLock { $0.arbiter.owesAnswer(party, about: item) }
    }

    /// A directory is there, its parent was placed before; or its being a package has changed.
    package func place(_ item: ItemID, _ directory: DirectoryInfo) { submit(.placed(item, directory)) }

    /// Nobody will name a directory again, nor anything in it.
    package func forget(_ directory: ItemID) { submit(.forgotten(directory)) }

    package func noteCreation(of item: ItemID, at place: Place, by party: Party, under claim: ClaimID? = nil)
    {
        let (party, claim) = author(party, claim, of: item, at: place)
        // There was another one under its name, and that is not there any more.
        if let (former, access) = takeDeletion(of: item) {
            submit(.deleted(item, at: former.place, by: former.party, under: access))
        }
        submit(.created(item, at: place, by: party, under: claim))
    }

    /// Contents or attributes were written; see `ArbiterEvent.changed`, and `ArbiterEvent.written` of programs that go on.
    ///
    /// A file is closed without a lock of its directory, and may get another name at the same time. `isThere` is asked under the engine's
    /// lock whether it still has this one, and takes no lock but those of nodes: so nothing is told of a name that was told to be
    /// gone. Returns whether it has it.
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

    /// The item is called something else now, or is elsewhere.
    ///
    /// `told` is called under the engine's lock before its new name is told, maybe more than once. It takes no lock but those of nodes.
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

    /// What was vacated like a document that is saved turned out to be deleted.
    package func noteLoss(of item: ItemID, at place: Place, by party: Party) {
        let (party, claim) = author(party, nil, of: item, at: place)
        if postponeDeletion(of: item, at: place, by: party, within: claim) { return }
        submit(.lost(item, at: place, by: party))
    }

    /// What a program removed a moment ago, within no access, is put to presenters. `isUndecided` is asked under the engine's lock,
    /// and takes no other but its own: so nothing is told to be gone after something else was told to have its name.
    package func noteLoss(of item: ItemID, at place: Place, by party: Party, if isUndecided: () -> Bool) {
        dispatch(.lost(item, at: place, by: party), if: isUndecided)
    }

    /// What a program does while it holds an access that it asked for over the socket is part of that access: those who
    /// show the item are told so, other presenters of the same program included.
    private func author(
        _ party: Party, _ claim: ClaimID?, of item: ItemID, at place: Place
    ) -> (Party, ClaimID?) {
        guard hasAwareClients, party.process != nil else { return (party, claim) }
        let around = state.withLock { $0.arbiter.write(around: party, of: item, at: place) }
        return around.map { ($0.by, $0.claim) } ?? (party, claim)
    }

    /// Whether a program does something to an item while it holds an access to write it that it asked for over the socket.
    package func isWithinAccess(_ party: Party, of item: ItemID, at place: Place) -> Bool {
        author(party, nil, of: item, at: place).1 != nil
    }

    /// A symbolic link leads elsewhere now.
    package func noteLinkTarget(of link: ItemID, to item: ItemID, at place: Place) {
        submit(.relinked(link, to: item, at: place))
    }
}
