// SPDX-License-Identifier: Apache-2.0
import Arbitration
import ArbitrationSimulation
import Coordination
import Testing

/// Rule D5: the claims of one user do not prevent the detection of another user's deadlocks.
@Suite("Search for deadlocks among the claims of many users")
struct CycleSearchFairnessTests {
    /// Work limits with which a search for deadlocks has few steps, and two waiting programs are too many for an immediate
    /// search.
    private static var limits: WorkLimits {
        var limits = WorkLimits()
        (limits.programs, limits.steps, limits.stepsPerRoot) = (1, 4_000, 100)
        return limits
    }

    private static var conversation: ArbiterHarness {
        var bounds = Bounds()
        (bounds.hold, bounds.firstObservationDelay) = (.seconds(600), .seconds(600))
        var harness = ArbiterHarness(bounds, limits)
        harness.now = Instant(nanoseconds: 1)
        return harness
    }

    private static func party(_ process: UInt64, of user: UInt32) -> Party {
        var party = Party.process(Int32(process))
        party.user = user
        return party
    }

    /// Makes a chain of programs of one user. Each program holds a file and waits for the file of the next program.
    ///
    /// If `isRing` is true, the last program waits for the first program's file. The ring is a deadlock.
    private static func chain(
        _ harness: inout ArbiterHarness, _ programs: UInt64, from number: UInt64, of user: UInt32,
        isRing: Bool
    ) {
        for place in 0..<programs {
            harness.claim(
                number + place, .write(.updating), number + place, by: party(number + place, of: user))
        }
        for place in 0..<(isRing ? programs : programs - 1) {
            harness.claim(
                number + programs + place, .write(.updating), number + (place + 1) % programs,
                by: party(number + place, of: user))
        }
    }

    /// The number of deadlocks that the arbiter finds at each whole second of the range.
    private static func found(_ harness: inout ArbiterHarness, seconds: ClosedRange<UInt64>) -> [Int] {
        seconds.map { second in
            harness.tick(at: Instant(nanoseconds: second * 1_000_000_000))
            return harness.effects.count { if case .deadlock = $0 { true } else { false } }
        }
    }

    /// A ring of programs is a deadlock. This ring is so large that the search from one of its claims does not end in the first
    /// second.
    ///
    /// The deadlock must be found although another user has many waiting claims: in the first case many short chains, in the
    /// second case a few long chains.
    @Test(arguments: [(60, 15), (8, 250)] as [(UInt64, UInt64)])
    func aLargeDeadlockIsFoundEvenIfManyOtherClaimsWait(chains: UInt64, programs: UInt64) {
        var harness = Self.conversation
        for chain in 0..<chains {
            Self.chain(&harness, programs, from: 1_000 * (chain + 1), of: 1, isRing: false)
        }
        Self.chain(&harness, 16, from: 900_000, of: 2, isRing: true)
        #expect(Self.found(&harness, seconds: 1...4).reduce(0, +) == 1)
        #expect(harness.arbiter.searchSteps < 2 * Self.limits.steps)
    }

    /// Claims of one user that use all search steps of this user do not delay the search for another user's first deadlock.
    @Test func aSmallDeadlockIsFoundInOneSecondEvenIfManyOtherClaimsWait() {
        var harness = Self.conversation
        for chain in 0..<60 as Range<UInt64> {
            Self.chain(&harness, 15, from: 1_000 * (chain + 1), of: 1, isRing: false)
        }
        Self.chain(&harness, 2, from: 900_000, of: 2, isRing: true)
        #expect(Self.found(&harness, seconds: 1...1) == [1])
    }

    /// When there are too many claims to examine, the arbiter resolves every deadlock that it found, not only the first.
    @Test func oneSearchResolvesTenDeadlocks() {
        var harness = Self.conversation
        for pair in 0..<10 as Range<UInt64> {
            Self.chain(&harness, 2, from: 10 * (pair + 1), of: 1, isRing: true)
        }
        Self.chain(&harness, 500, from: 1_000, of: 1, isRing: false)
        #expect(Self.found(&harness, seconds: 1...1) == [10])
    }
}
