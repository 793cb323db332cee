// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine

/// What stands behind an access of a client.
final class AwareClaimant: Claimant {
    let intents: [Intent]
    private let party: Party
    private let document: any TrackedDocument

    /// One document for each of the accesses, at least one.
    init(_ accesses: [Access], to documents: [any TrackedDocument], by party: Party) {
        intents = zip(accesses, documents).map { access, document in Intent(access) { document.path } }
        document = documents[0]
        self.party = party
    }

    var account: Account {
        Account(thread: party.process?.number ?? 0, program: party.program) { [document] in document.path }
    }

    func identify() -> Party { party }

    /// What a client does to its documents is not watched: it says itself when its access is over.
    func observe() -> Observation {
        intents[0].access.isWrite ? .dirty(stamp: document.item.rawValue) : .reading(position: -1)
    }
}
