// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem
import Synchronization
import Testing

import func TestSupport.eventually

@testable import CoordinationEngine

/// Which holders are looked at, and in which order (D207).
@Suite struct LooksTests {
    private static let (owner, guest, other): (UInt32, UInt32, UInt32) = (1, 7, 9)
    private static let write = Access.write(.updating)

    private static func viewer(_ user: UInt32) -> Looks.Viewer {
        Looks.Viewer(user: user, isGuest: user != owner)
    }

    private static func numbers(_ looks: [Looks.Look]) -> [UInt64] { looks.map(\.claim.rawValue) }

    @Test("users take turns, however many holders of one wait; root and the owner come first")
    func turns() {
        var looks = Looks()
        for number in 0..<5000 as Range<UInt64> {
            looks.enter(ClaimID(number), .deeds, of: Self.viewer(Self.guest), on: nil)
        }
        #expect(Self.numbers(looks.takeDue()) == [0, 1, 2])
        looks.enter(ClaimID(6000), .deeds, of: Self.viewer(Self.other), on: nil)
        looks.enter(ClaimID(6001), .deeds, of: Self.viewer(Self.owner), on: nil)
        #expect(Self.numbers(looks.takeDue()) == [6001, 6000])
        looks.enter(ClaimID(6002), .deeds, of: Self.viewer(Self.other), on: nil)
        looks.enter(ClaimID(6003), .deeds, of: Self.viewer(Self.other), on: nil)
        let turns: [(ended: UInt64, next: [UInt64])] = [
            (0, [3, 6002]), (1, [4]), (2, [6003]), (3, [5]), (4, [6]),
        ]
        for turn in turns {
            looks.end(ClaimID(turn.ended))
            #expect(Self.numbers(looks.takeDue()) == turn.next)
        }
    }

    @Test("what one pool keeps takes nothing from another; a claim that ended leaves the line")
    func pools() throws {
        let (timers, workers) = (try EngineThreads.timers.get(), try EngineThreads.workers.get())
        let pool = SpareWorkers(threads: 1, by: timers, else: workers)
        var looks = Looks()
        for number in 0..<100 as Range<UInt64> {
            looks.enter(ClaimID(number), .deeds, of: Self.viewer(Self.owner), on: pool)
        }
        #expect(looks.takeDue().count == 8)
        looks.enter(ClaimID(200), .deeds, of: Self.viewer(Self.owner), on: nil)
        #expect(Self.numbers(looks.takeDue()) == [200])
        for number in 0..<99 as Range<UInt64> { looks.cancel(ClaimID(number)) }
        looks.end(ClaimID(3))
        #expect(Self.numbers(looks.takeDue()) == [99])
        for number in [0, 1, 2, 4, 5, 6, 7, 99, 200] as [UInt64] { looks.end(ClaimID(number)) }
        #expect(looks.takeDue().isEmpty && looks.count == 0)
    }

    @Test("a look at rights goes before those that wait, once for each holder")
    func rights() {
        var looks = Looks()
        for number in 0..<10 as Range<UInt64> {
            looks.enter(ClaimID(number), .deeds, of: Self.viewer(Self.guest), on: nil)
        }
        #expect(Self.numbers(looks.takeDue()) == [0, 1, 2])
        #expect(!looks.lacks(ClaimID(0), .rights) && looks.lacks(ClaimID(8), .rights))
        looks.enter(ClaimID(8), .rights, of: Self.viewer(Self.guest), on: nil)
        let due = looks.takeDue()
        #expect(Self.numbers(due) == [8] && due[0].aim == .rights)
        for number in 0...2 as ClosedRange<UInt64> { looks.end(ClaimID(number)) }
        #expect(Self.numbers(looks.takeDue()) == [3, 4, 5])
        for number in 3...5 as ClosedRange<UInt64> { looks.end(ClaimID(number)) }
        #expect(Self.numbers(looks.takeDue()) == [6, 7, 9])
    }

    /// A program whose file can be looked at only when the test says so.
    private final class HungReader: Claimant {
        let program: StandIn
        let opener: UInt32?
        let lookers: SpareWorkers?
        let release: Released

        init(_ program: StandIn, of user: UInt32, on lookers: SpareWorkers?, _ release: Released) {
            (self.program, opener, self.lookers, self.release) = (program, user, lookers, release)
        }

        var account: Account { program.account }
        var intents: [Intent] { program.intents }
        func identify() -> Party { program.party }
        func observe() -> Observation {
            release.wait()
            return .reading(position: 1)
        }
        func mayItsUserWrite() -> Bool { false }
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

    /// Has an item read by one user, and another one wait to write it.
    private static func contest(
        _ stage: Stage, _ item: UInt64, by reader: HungReader, _ writer: StandIn
    ) -> [ClaimID] {
        let reading = stage.engine.makeClaimID()
        reader.program.set([(.read(), item)])
        let request = Request(reading, .handle, Request.Part(ItemID(item), .read(), at: Place()))
        _ = stage.engine.claim(request, by: reader)
        return [stage.claim(.handle, (write, item), by: writer), reading]
    }

    @Test(
        "a guest's reader is charged, and gives way when the time is used up, though no look at it ever ends")
    func unlooked() throws {
        var bounds = Bounds()
        (bounds.hold, bounds.wait, bounds.guestDelay) = (.seconds(30), .seconds(30), .milliseconds(400))
        let stage = try Stage(bounds, sharedBy: Self.owner)
        let (timers, workers) = (try EngineThreads.timers.get(), try EngineThreads.workers.get())
        let pool = SpareWorkers(threads: 8, by: timers, else: workers)
        let released = Released()
        defer { released.release() }
        var claims: [ClaimID] = []
        // Its own programs wait for each other, which is not counted.
        for number in 0..<40 as Range<UInt64> {
            let reader = HungReader(
                StandIn("cat", Int32(100 + number), of: Self.guest), of: Self.guest, on: pool, released)
            let writer = StandIn("vi", Int32(200 + number), of: Self.guest)
            claims += Self.contest(stage, 1000 + number, by: reader, writer)
        }
        try eventually(within: .seconds(10), "looks") { stage.engine.state.withLock { $0.looks.count >= 40 } }
        let reader = HungReader(StandIn("tail", 90, of: Self.guest), of: Self.guest, on: pool, released)
        let writer = StandIn("vi", 91, of: 8)
        claims += Self.contest(stage, 1, by: reader, writer)
        try eventually(within: .seconds(10), "the other user's writer") { writer.isGranted }
        // Another file system's readers are looked at all the same.
        let free = Released()
        free.release()
        let elsewhere = HungReader(
            StandIn("less", 92, of: Self.other), of: Self.other,
            on: SpareWorkers(threads: 2, by: timers, else: workers), free)
        let second = StandIn("vi", 93, of: 8)
        claims += Self.contest(stage, 2, by: elsewhere, second)
        try eventually(within: .seconds(10), "the writer elsewhere") { second.isGranted }
        for claim in claims {
            stage.engine.withdraw(claim)
            stage.engine.end(claim)
        }
        released.release()
        try eventually(within: .seconds(10), "all looks") {
            stage.engine.state.withLock { $0.looks.count == 0 }
        }
    }
}
