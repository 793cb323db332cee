// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine

/// What stands behind an access of a client.
final class AwareClaimant: Claimant {
    let access: Access
    private let party: Party
    private let document: any TrackedDocument

    init(_ access: Access, to document: any TrackedDocument, by party: Party) {
        self.access = access
        self.document = document
        self.party = party
    }

    var account: Account {
        Account(thread: party.process?.number ?? 0, program: party.program) { [document] in document.path }
    }

    func identify() -> Party { party }

    /// What a client does to its documents is not watched: it says itself when its access is over.
    func observe() -> Observation {
        access.isWrite ? .dirty(stamp: document.item.rawValue) : .reading(position: -1)
    }
}
