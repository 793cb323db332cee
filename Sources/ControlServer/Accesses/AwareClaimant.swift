// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine

/// The claimant of a client's access.
final class AwareClaimant: Claimant {
    let intents: [Intent]
    private let party: Party
    private let documents: [PlannedDocument]

    /// Takes one document for each of the accesses, at least one.
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

    /// The file of a client is not watched, because the client ends its access itself.
    func observe() -> Observation {
        intents[0].access.isWrite ? .dirty(stamp: documents[0].item.rawValue) : .reading(position: -1)
    }
}
