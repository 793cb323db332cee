// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination
import Testing

/// Rule X7: the claims of a run's leases.
@Suite("Claims of leases")
struct LeaseRuleTests {
    private static let run = RunID(number: 1, name: "build", pid: 900)
    private static let lease = Party(leasesOf: run, user: 0)

    private static func member(_ number: Int32) -> Party {
        Party(process: ProcessID(number: number, started: 1), ancestors: [], runs: [run])
    }

    @Test("X7: a process of the run does not wait for its lease, but for another process of the run")
    func aProcessOfTheRunPassesTheLease() {
        var harness = ArbiterHarness()
        harness.claim(1, .write(.contentIndependentMetadataOnly), 10, by: Self.lease, as: .aware)
        harness.claim(2, .write(.updating), 10, by: Self.member(100))
        #expect(harness.granted == [ClaimID(2)])
        harness.claim(3, .write(.updating), 10, by: Self.member(101))
        #expect(harness.granted == [])
        harness.claim(4, .read(), 10, by: .process(102))
        #expect(harness.granted == [])
        harness.tell(.ended(ClaimID(2)))
        #expect(harness.granted == [ClaimID(3)])
    }

    @Test("X7: a presenter is not asked about a lease, and a write of the run does not belong to the lease")
    func aLeaseAsksNoPresenterAndEnclosesNoWrite() {
        var harness = ArbiterHarness()
        harness.present(1, 10, by: .process(50))
        harness.claim(1, .write(.contentIndependentMetadataOnly), 10, by: Self.lease, as: .aware)
        #expect(harness.asked == [])
        let writer = Self.member(100)
        #expect(harness.arbiter.enclosingWrite(of: writer, on: ItemID(10), at: Place()) == nil)
        harness.claim(2, .write(.updating), 10, by: writer)
        #expect(harness.asked.count == 1)
        #expect(!Self.lease.includes(writer))
        #expect(Self.lease.isExempt(from: writer))
        #expect(!writer.isExempt(from: Self.member(101)))
    }
}
