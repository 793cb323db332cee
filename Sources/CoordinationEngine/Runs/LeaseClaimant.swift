// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The claimant of the claims that are made for a run's leases, each on one document.
final class LeaseClaimant: Claimant {
    let intents: [Intent]
    private let run: RunID
    private let party: Party
    private unowned let engine: Engine

    init(_ run: RunID, of user: UInt32, _ intent: Intent, in engine: Engine) {
        self.run = run
        self.engine = engine
        party = Party(leasesOf: run, user: user)
        intents = [intent]
    }

    /// A lease has no file open. A program of the run that has one has a claim of its own for it.
    var mayChangeFileUnasked: Bool { false }
    var attribution: Attribution { Attribution(of: party, path: intents[0].path) }

    func identify() -> Party { party }

    /// Returns a fixed observation. A lease ends with its run, so its use of the file need not be watched.
    func observe() -> Observation {
        intents[0].access.isWrite ? .dirty(stamp: run.number) : .reading(position: -1)
    }

    func retarget(from former: ItemID, to item: ItemID) { engine.runs.retarget(run, from: former, to: item) }

    /// Other programs no longer wait for one document, so they no longer wait for the whole lease (D237).
    func didSuspend(because reason: Suspension) {
        engine.runs.suspend(run, because: reason == .deadlocked ? .deadlocked : .holdExpired, at: Engine.now)
            .run()
    }
}
