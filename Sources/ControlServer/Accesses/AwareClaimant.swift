// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine

/// Gives the engine the intents, the party and the documents of a client's access.
final class AwareClaimant: Claimant {
    let intents: [Intent]
    private let party: Party
    private let documents: [PlannedDocument]

    /// Makes a claimant from the accesses of a claim, with one document for each access. The list must not be empty.
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

    /// Returns a fixed observation. The daemon need not watch what the client does with the file, because the client itself
    /// ends its access.
    func observe() -> Observation {
        intents[0].access.isWrite ? .dirty(stamp: documents[0].item.rawValue) : .reading(position: -1)
    }
}
