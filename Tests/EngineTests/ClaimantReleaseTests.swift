// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Synchronization
import Testing

import func TestSupport.eventually

/// The engine releases its lock before it drops a claimant, because the claimant's `deinit` is allowed to call the engine.
@Suite struct ClaimantReleaseTests {
    private static let write = Access.write(.updating)

    /// Makes a stand-in that calls the engine in its `deinit`. If the engine held its lock, this call would hang for ever.
    private func curious(_ stage: EngineHarness, _ number: Int32, _ ends: CallCounter) -> StandInClaimant {
        StandInClaimant("curious", number, purpose: "\(number)") { [engine = stage.engine] in
            _ = engine.isPresented(ItemID(1))
            ends.add()
        }
    }

    @Test("the engine releases a claimant outside its lock, however the claim ends")
    func theEngineReleasesClaimantsOutsideItsLock() throws {
        var bounds = Bounds()
        bounds.wait = .milliseconds(30)
        let stage = try EngineHarness(bounds)
        let ends = CallCounter()
        let holder = StandInClaimant("holder", 1, purpose: "holder")
        let held = stage.claim(.aware, (Self.write, 1), by: holder)
        // This claim is refused when its time to wait is over.
        stage.claim(.aware, (Self.write, 1), by: curious(stage, 2, ends))
        // This claim is withdrawn.
        stage.engine.withdraw(stage.claim(.aware, (Self.write, 1), by: curious(stage, 3, ends)))
        // This claim is ended.
        stage.engine.end(stage.claim(.aware, (Self.write, 2), by: curious(stage, 4, ends)))
        // The first claimant object of this claim is replaced by another object.
        let replaced = stage.claim(.aware, (Self.write, 3), by: curious(stage, 5, ends))
        stage.engine.replaceClaimant(of: replaced, by: holder)
        // This claim is refused before its decision handler is set.
        let quiet = stage.engine.makeClaimID()
        let request = ClaimRequest(quiet, .aware, ClaimRequest.Part(ItemID(1), Self.write))
        do {
            let last = curious(stage, 6, ends)
            last.set([(Self.write, 1)])
            _ = stage.engine.claim(request, by: last)
        }
        try eventually(within: .seconds(10), "the refusal") {
            stage.engine.report(options: EffectiveOptions(), dataPath: .undecided).waiting.isEmpty
        }
        stage.engine.onDecision(quiet) { _ in }
        stage.engine.end(replaced)
        stage.engine.end(held)
        // Entries of the journal refer to the claimants. After `Journal.capacity` new entries, the journal has dropped all
        // entries that refer to these claimants.
        for _ in 0..<Journal.capacity {
            stage.engine.end(stage.claim(.handle, (.read(), 9), by: holder))
        }
        try eventually(within: .seconds(10), "5 ends, of which there were \(ends.count)") {
            ends.count == 5
        }
    }
}

final class CallCounter: Sendable {
    private let value = Mutex(0)
    var count: Int { value.withLock { $0 } }
    func add() { value.withLock { $0 += 1 } }
}
