// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine

/// What stands behind an access of a client.
final class AwareClaimant: Claimant {
    let intents: [Intent]
    private let party: Party
    private let documents: [PlannedDocument]

    /// One document for each of the accesses, at least one.
    init(_ accesses: [Access], to documents: [PlannedDocument], by party: Party) {
        intents = zip(accesses, documents).map { access, document in Intent(access) { document.path } }
        self.documents = documents
        self.party = party
    }

    var attribution: Attribution {
        let first = documents[0]
        return Attribution(of: party) { first.path }
    }

    func identify() -> Party { party }

    func retarget(from former: ItemID, to item: ItemID) {
        for document in documents { document.retarget(from: former, to: item) }
    }

    /// What a client does to its documents is not watched: it says itself when its access is over.
    func observe() -> Observation {
        intents[0].access.isWrite ? .dirty(stamp: documents[0].item.rawValue) : .reading(position: -1)
    }
}
