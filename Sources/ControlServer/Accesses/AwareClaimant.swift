// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine

/// Gives the engine the intents, the party and the documents of a client's access.
final class AwareClaimant: Claimant {
    let intents: [Intent]
    private let party: Party
    private let documents: [PlannedDocument]

    /// Takes the accesses of a claim and one document for each access. There must be at least one.
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

    /// The daemon does not watch what a client does with the file, because the client ends its access itself. So this returns a
    /// fixed observation.
    func observe() -> Observation {
        intents[0].access.isWrite ? .dirty(stamp: documents[0].item.rawValue) : .reading(position: -1)
    }
}
