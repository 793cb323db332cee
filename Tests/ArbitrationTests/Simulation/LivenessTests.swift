// SPDX-License-Identifier: Apache-2.0
import Arbitration
import ArbitrationSimulation
import Coordination
import TestSupport
import Testing

/// Checks that no claim waits forever in simulations where programs do nothing after their claims (rules T1, T3).
///
/// In such a simulation no party is identified, no observed holder changes its state, and no handle is ever closed.
@Suite("Claims in simulations in which no program answers a question")
struct LivenessTests {
    private struct Outcomes {
        var settled: [ClaimID: (moment: Instant, effect: Effect)] = [:]
        var repeated: [ClaimID] = []
        var wakes = WakeSchedule()

        mutating func take(_ effects: [Effect], at now: Instant) {
            for effect in effects {
                switch effect {
                case .wake(let moment): wakes.ask(for: moment)
                case .grant(let claim, _), .refuse(let claim, _):
                    if settled.updateValue((now, effect), forKey: claim) != nil { repeated.append(claim) }
                default: break
                }
            }
        }
    }

    @Test(
        "each claim is granted or refused exactly once, and within its longest wait",
        arguments: TimeoutPolicy.allCases)
    func eachClaimIsGrantedOrRefusedOnceWithinItsLongestWait(policy: TimeoutPolicy) {
        var bounds = Bounds()
        (bounds.policy, bounds.wait, bounds.hold) = (policy, .seconds(2), .seconds(3))
        (bounds.idle, bounds.readerIdle) = (.seconds(5), .seconds(5))
        var choices = ExhaustiveChoices()
        var runs = 0
        while choices.next() {
            runs += 1
            let outcomes = play(&choices, bounds)
            #expect(outcomes.settled.count == 4)
            #expect(outcomes.repeated.isEmpty)
            for (claim, outcome) in outcomes.settled {
                let arrival = Instant(nanoseconds: claim.rawValue * 100_000_000)
                #expect(outcome.moment <= arrival + bounds.wait)
            }
        }
        print("nothing hangs, policy \(policy): \(runs) runs")
        #expect(runs == 1_296)
    }

    /// Rule Q3: claims wait for claims that also wait. The search through these claims visits each claim once.
    ///
    /// Each level has two claims, and each of the two waits for both claims of the level before. So the number of paths through
    /// the claims doubles with each level.
    @Test func theDeadlockSearchVisitsEachWaitingClaimOnce() {
        let levels: UInt64 = 60
        // The item for which the claim `upper` of one level and the claim `lower` of another level compete.
        let item = { (upper: UInt64, lower: UInt64) in
            ClaimRequest.Part(ItemID(upper * 1_000 + lower), .write(.updating))
        }
        var harness = ArbiterHarness()
        harness.claim(0, .write(.updating), 1)
        harness.claim(1, .write(.updating), 2, by: .process(100))
        for number in 2..<(2 * levels) {
            let level = number / 2 * 2
            let below =
                level == 2
                ? [ClaimRequest.Part(ItemID(1), .write(.updating))]
                : [level - 2, level - 1].map { item(number, $0) }
            let parts = below + [level + 2, level + 3].map { item($0, number) }
            harness.tell(.claimed(ClaimRequest(ClaimID(number), .handle, parts[0], Array(parts.dropFirst()))))
        }
        let last = ClaimRequest(ClaimID(2 * levels), .handle, item(2 * levels, 2 * levels - 1))
        harness.tell(.claimed(last))
        harness.tell(.identified(last.claim, .process(100)))
        #expect(harness.granted.isEmpty)
        #expect(harness.arbiter.blocker(of: last.claim) == ClaimID(2 * levels - 1))
    }

    /// Makes four claims of any kind, one every 100 ms. After the last claim, the time advances from each requested wake to the
    /// next.
    private func play(_ choices: inout ExhaustiveChoices, _ bounds: Bounds) -> Outcomes {
        var arbiter = Arbiter(bounds: bounds)
        var outcomes = Outcomes()
        for number in 0..<4 as Range<UInt64> {
            let arrival = Instant(nanoseconds: number * 100_000_000)
            tick(&arbiter, until: arrival, &outcomes)
            let request = ClaimRequest(ClaimID(number), choices.oneOf(Self.kinds))
            var effects: [Effect] = []
            arbiter.handle(.claimed(request), at: arrival, into: &effects)
            outcomes.take(effects, at: arrival)
        }
        tick(&arbiter, until: Instant(nanoseconds: 10_000_000_000), &outcomes)
        return outcomes
    }

    private func tick(_ arbiter: inout Arbiter, until end: Instant, _ outcomes: inout Outcomes) {
        while let moment = outcomes.wakes.next, moment <= end {
            outcomes.wakes.pass(moment)
            var effects: [Effect] = []
            arbiter.handle(.tick, at: moment, into: &effects)
            outcomes.take(effects, at: moment)
        }
    }

    fileprivate struct Kind {
        let nature: ClaimRequest.Nature
        let first: ClaimRequest.Part
        var second: ClaimRequest.Part?
    }

    private static let here = ItemID(1)
    private static let there = ItemID(2)
    private static let kinds = [
        Kind(nature: .handle, first: ClaimRequest.Part(here, .read())),
        Kind(nature: .handle, first: ClaimRequest.Part(here, .write(.updating))),
        Kind(nature: .handleless, first: ClaimRequest.Part(there, .write(.updating))),
        Kind(
            nature: .handle, first: ClaimRequest.Part(there, .read()),
            second: ClaimRequest.Part(here, .write(.forMerging))),
        Kind(nature: .nameChange, first: ClaimRequest.Part(here, .write(.forDeleting))),
        Kind(nature: .pendingSave, first: ClaimRequest.Part(there, .write(.updating))),
    ]
}

extension ClaimRequest {
    fileprivate init(_ claim: ClaimID, _ kind: LivenessTests.Kind) {
        self.init(claim, kind.nature, kind.first, kind.second)
    }
}
