// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import LinuxSystem
import Testing

@testable import CoordinatedFilesystem

/// How many opens may wait at once (D185, D208).
@Suite struct ParkingTests {
    @Test("a user has a share, and all that are neither root nor the owner have four together")
    func shares() throws {
        let parking = Parking(timers: try Timers(), counters: LiveCounters())
        func enter(_ count: Int, of user: UInt32) -> [UInt] {
            (0..<count).map { _ in
                let token = parking.makeToken()
                parking.enter(token, Parking.Spot(thread: 0, user: user) { _ in })
                return token
            }
        }
        let (root, owner) = (UInt32(0), OwnProcess.user)
        let first = UInt32(100_000)
        var tokens = enter(Parking.share, of: first)
        #expect(!parking.isOverShare(first))
        tokens += enter(1, of: first)
        #expect(parking.isOverShare(first) && !parking.isOverShare(first + 1))
        // One user with very many user numbers.
        for number in 1..<32 as Range<UInt32> { tokens += enter(Parking.share / 8, of: first + number) }
        #expect(parking.isOverShare(first + 1) && parking.isOverShare(first + 100))
        let own = enter(Parking.share + 1, of: root) + enter(Parking.share + 1, of: owner)
        #expect(!parking.isOverShare(root) && !parking.isOverShare(owner))
        for token in tokens { parking.leave(token) }
        #expect(!parking.isOverShare(first) && !parking.isOverShare(first + 1))
        for token in own { parking.leave(token) }
    }
}
