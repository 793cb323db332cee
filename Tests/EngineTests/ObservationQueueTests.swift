// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem
import Synchronization
import Testing

import func TestSupport.eventually

@testable import CoordinationEngine

/// Checks which holders the engine observes, and in which order (D207).
@Suite struct ObservationQueueTests {
    private static let (owner, guest, other): (UInt32, UInt32, UInt32) = (1, 7, 9)
    private static let write = Access.write(.updating)

    private static func holderUser(_ user: UInt32) -> ObservationQueue.HolderUser {
        ObservationQueue.HolderUser(user: user, isGuest: user != owner)
    }

    private static func numbers(_ observations: [ObservationQueue.ObservationRequest]) -> [UInt64] {
        observations.map(\.claim.rawValue)
    }

    @Test(
        "holders of different users are observed in turn, but holders of root and of the owner before all others"
    )
    func holdersOfDifferentUsersAreObservedInTurn() {
        var observations = ObservationQueue()
        for number in 0..<5000 as Range<UInt64> {
            observations.enter(ClaimID(number), .fileState, of: Self.holderUser(Self.guest), on: nil)
        }
        #expect(Self.numbers(observations.takeDue()) == [0, 1, 2])
        observations.enter(ClaimID(6000), .fileState, of: Self.holderUser(Self.other), on: nil)
        observations.enter(ClaimID(6001), .fileState, of: Self.holderUser(Self.owner), on: nil)
        #expect(Self.numbers(observations.takeDue()) == [6001, 6000])
        observations.enter(ClaimID(6002), .fileState, of: Self.holderUser(Self.other), on: nil)
        observations.enter(ClaimID(6003), .fileState, of: Self.holderUser(Self.other), on: nil)
        let turns: [(ended: UInt64, next: [UInt64])] = [
            (0, [3, 6002]), (1, [4]), (2, [6003]), (3, [5]), (4, [6]),
        ]
        for turn in turns {
            observations.end(ClaimID(turn.ended))
            #expect(Self.numbers(observations.takeDue()) == turn.next)
        }
    }

    @Test("a blocked thread pool delays no observation on another pool, and an ended claim leaves the queue")
    func aBlockedThreadPoolDelaysNoObservationOnAnotherPool() throws {
        let (timers, workers) = (try EngineTestThreads.timers.get(), try EngineTestThreads.workers.get())
        let pool = LazyWorkerPool(threads: 1, by: timers, else: workers)
        var observations = ObservationQueue()
        for number in 0..<100 as Range<UInt64> {
            observations.enter(ClaimID(number), .fileState, of: Self.holderUser(Self.owner), on: pool)
        }
        #expect(observations.takeDue().count == 8)
        observations.enter(ClaimID(200), .fileState, of: Self.holderUser(Self.owner), on: nil)
        #expect(Self.numbers(observations.takeDue()) == [200])
        for number in 0..<99 as Range<UInt64> { observations.cancel(ClaimID(number)) }
        observations.end(ClaimID(3))
        #expect(Self.numbers(observations.takeDue()) == [99])
        for number in [0, 1, 2, 4, 5, 6, 7, 99, 200] as [UInt64] { observations.end(ClaimID(number)) }
        #expect(observations.takeDue().isEmpty && observations.count == 0)
    }

    @Test("a check of a holder's rights runs before all waiting checks of other holders' files")
    func aCheckOfAHoldersRightsPrecedesWaitingChecksOfFiles() {
        var observations = ObservationQueue()
        for number in 0..<10 as Range<UInt64> {
            observations.enter(ClaimID(number), .fileState, of: Self.holderUser(Self.guest), on: nil)
        }
        #expect(Self.numbers(observations.takeDue()) == [0, 1, 2])
        #expect(!observations.needs(ClaimID(0), .rights) && observations.needs(ClaimID(8), .rights))
        observations.enter(ClaimID(8), .rights, of: Self.holderUser(Self.guest), on: nil)
        let due = observations.takeDue()
        #expect(Self.numbers(due) == [8] && due[0].kind == .rights)
        for number in 0...2 as ClosedRange<UInt64> { observations.end(ClaimID(number)) }
        #expect(Self.numbers(observations.takeDue()) == [3, 4, 5])
        for number in 3...5 as ClosedRange<UInt64> { observations.end(ClaimID(number)) }
        #expect(Self.numbers(observations.takeDue()) == [6, 7, 9])
    }

    /// A program with a file that cannot be observed. An observation waits until the test calls `release`.
    private final class HungReader: Claimant {
        let program: StandInClaimant
        let opener: UInt32?
        let observationThreads: LazyWorkerPool?
        let release: Released

        init(
            _ program: StandInClaimant, of user: UInt32, on observationThreads: LazyWorkerPool?,
            _ release: Released
        ) {
            (self.program, opener, self.observationThreads, self.release) = (
                program, user, observationThreads, release
            )
        }

        var attribution: Attribution { program.attribution }
        var intents: [Intent] { program.intents }
        func identify() -> Party { program.party }
        func observe() -> Observation {
            release.wait()
            return .reading(position: 1)
        }
        func userMayWrite() -> Bool { false }
    }

    private final class Released: Sendable {
        private let isReleased = Atomic(false)
        func release() { isReleased.store(true, ordering: .relaxed) }
        func wait() {
            _ = try? eventually(within: .seconds(60), "the test to let it go on") {
                isReleased.load(ordering: .relaxed)
            }
        }
    }

    /// Makes a claim of one user that reads an item, and a claim of another user that waits to write it.
    private static func contest(
        _ stage: EngineHarness, _ item: UInt64, by reader: HungReader, _ writer: StandInClaimant
    ) -> [ClaimID] {
        let reading = stage.engine.makeClaimID()
        reader.program.set([(.read(), item)])
        let request = ClaimRequest(reading, .handle, ClaimRequest.Part(ItemID(item), .read(), at: Place()))
        _ = stage.engine.claim(request, by: reader)
        return [stage.claim(.handle, (write, item), by: writer), reading]
    }

    @Test(
        "a guest's reader is suspended after the delay allowance, even if no observation of it ever ends"
    )
    func aGuestsReaderThatCannotBeObservedIsSuspendedAfterTheDelayAllowance() throws {
        var bounds = Bounds()
        (bounds.hold, bounds.wait, bounds.guestDelay) = (.seconds(30), .seconds(30), .milliseconds(400))
        let stage = try EngineHarness(bounds, sharedBy: Self.owner)
        let (timers, workers) = (try EngineTestThreads.timers.get(), try EngineTestThreads.workers.get())
        let pool = LazyWorkerPool(threads: 8, by: timers, else: workers)
        let released = Released()
        defer { released.release() }
        var claims: [ClaimID] = []
        // Each writer of the guest waits for a reader of the guest. A guest's delay of itself is not charged.
        for number in 0..<40 as Range<UInt64> {
            let reader = HungReader(
                StandInClaimant("cat", Int32(100 + number), of: Self.guest), of: Self.guest, on: pool,
                released)
            let writer = StandInClaimant("vi", Int32(200 + number), of: Self.guest)
            claims += Self.contest(stage, 1000 + number, by: reader, writer)
        }
        try eventually(within: .seconds(10), "looks") {
            stage.engine.withState { $0.observations.count >= 40 }
        }
        let reader = HungReader(
            StandInClaimant("tail", 90, of: Self.guest), of: Self.guest, on: pool, released)
        let writer = StandInClaimant("vi", 91, of: 8)
        claims += Self.contest(stage, 1, by: reader, writer)
        try eventually(within: .seconds(10), "the other user's writer") { writer.isGranted }
        // The first file system does not answer. The engine still observes readers of another file system.
        let free = Released()
        free.release()
        let elsewhere = HungReader(
            StandInClaimant("less", 92, of: Self.other), of: Self.other,
            on: LazyWorkerPool(threads: 2, by: timers, else: workers), free)
        let second = StandInClaimant("vi", 93, of: 8)
        claims += Self.contest(stage, 2, by: elsewhere, second)
        try eventually(within: .seconds(10), "the writer elsewhere") { second.isGranted }
        for claim in claims {
            stage.engine.withdraw(claim)
            stage.engine.end(claim)
        }
        released.release()
        try eventually(within: .seconds(10), "all looks") {
            stage.engine.withState { $0.observations.count == 0 }
        }
    }
}
