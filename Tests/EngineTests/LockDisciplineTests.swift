// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Testing

import func TestSupport.eventually

/// The engine carries out the effects of an event only after it has released its lock. So the engine can handle other events
/// while an effect takes long.
@Suite struct LockDisciplineTests {
    private static let write = Access.write(.updating)

    /// A claimant that calls the engine when its name is read. If the engine held its lock, this call would hang for ever.
    private final class Curious: Claimant {
        let observed = CallCounter()
        private let engine: Engine
        private let party: Party

        init(_ engine: Engine, _ number: Int32) {
            self.engine = engine
            party = Party(process: ProcessID(number: number, started: 1), ancestors: [])
        }

        var attribution: Attribution {
            _ = engine.isPresented(ItemID(1))
            return Attribution(of: party) { Array("file".utf8) }
        }
        var intents: [Intent] { [Intent(LockDisciplineTests.write) { Array("file".utf8) }] }
        func identify() -> Party { party }
        func observe() -> Observation {
            observed.add()
            return .emptied
        }
    }

    private func claim(
        _ nature: ClaimRequest.Nature, _ item: UInt64, by claimant: Curious, in stage: EngineHarness,
        tell outcome: @escaping Engine.DecisionHandler = { _ in }
    ) -> ClaimID {
        let request = ClaimRequest(
            stage.engine.makeClaimID(), nature, ClaimRequest.Part(ItemID(item), Self.write))
        if case .waiting = stage.engine.claim(request, by: claimant) {
            stage.engine.onDecision(request.claim, tell: outcome)
        }
        return request.claim
    }

    @Test("a slow decision handler does not delay the observation of its claim")
    func aSlowDecisionHandlerDelaysNoObservation() throws {
        let stage = try EngineHarness()
        let slow = Curious(stage.engine, 2)
        let held = claim(.aware, 1, by: Curious(stage.engine, 1), in: stage)
        let looked = CallCounter()
        // When this claim is granted, another claim already waits for it. So the engine also requests the first observation of
        // the granted claim's program.
        let granted = claim(.handle, 1, by: slow, in: stage) { _ in
            let waited = try? eventually(within: .seconds(10), "a look") { slow.observed.count > 0 }
            if waited != nil { looked.add() }
        }
        let waiting = claim(.handle, 1, by: Curious(stage.engine, 3), in: stage)
        stage.engine.end(held)
        #expect(looked.count == 1)
        for claim in [waiting, granted] { stage.engine.end(claim) }
    }

    @Test("the names of suspended and refused claims are read for the log outside the engine's lock")
    func programNamesOfRefusedClaimsAreReadForTheLogOutsideTheEnginesLock() throws {
        var bounds = Bounds()
        (bounds.hold, bounds.wait) = (.milliseconds(20), .milliseconds(50))
        let stage = try EngineHarness(bounds)
        // Each pair is two claims on one item: the first is held, and the second waits. Of the two handles, the held claim is
        // suspended. Of the two aware claims, the waiting claim is refused.
        let natures: [(ClaimRequest.Nature, UInt64)] = [(.handle, 1), (.handle, 1), (.aware, 2), (.aware, 2)]
        let claims = natures.enumerated().map { index, made in
            claim(made.0, made.1, by: Curious(stage.engine, Int32(index + 1)), in: stage)
        }
        try eventually(within: .seconds(10), "two lines, of which there were \(stage.log.all)") {
            ["others waited for it for", "was refused"].allSatisfy { words in
                stage.log.all.contains { $0.contains(words) }
            }
        }
        for claim in claims.reversed() { stage.engine.end(claim) }
    }
}
