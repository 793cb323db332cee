// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import LinuxSystem
import Testing

@testable import FilesystemServer

/// Checks how many opens of a user may wait at the same time (D185, D208).
@Suite struct ParkedRequestsTests {
    @Test(
        "a user's waiting opens are limited, all guests together may have four times as many, root and the owner any number"
    )
    func aUsersWaitingOpensAreLimited() throws {
        let parkedRequests = ParkedRequests(timers: try Timers(), counters: LiveCounters())
        func enter(_ count: Int, of user: UInt32) -> [UInt] {
            (0..<count).map { _ in
                let token = parkedRequests.makeToken()
                parkedRequests.enter(token, ParkedRequests.ParkedRequest(thread: 0, user: user) { _ in })
                return token
            }
        }
        let (root, owner) = (UInt32(0), OwnProcess.user)
        let first = UInt32(100_000)
        var tokens = enter(ParkedRequests.share, of: first)
        #expect(!parkedRequests.isOverShare(first))
        tokens += enter(1, of: first)
        #expect(parkedRequests.isOverShare(first) && !parkedRequests.isOverShare(first + 1))
        // One person can have many user numbers, for example in a user namespace. These are 32 neighbouring numbers.
        for number in 1..<32 as Range<UInt32> {
            tokens += enter(ParkedRequests.share / 8, of: first + number)
        }
        #expect(parkedRequests.isOverShare(first + 1) && parkedRequests.isOverShare(first + 100))
        let own = enter(ParkedRequests.share + 1, of: root) + enter(ParkedRequests.share + 1, of: owner)
        #expect(!parkedRequests.isOverShare(root) && !parkedRequests.isOverShare(owner))
        for token in tokens { parkedRequests.leave(token) }
        #expect(!parkedRequests.isOverShare(first) && !parkedRequests.isOverShare(first + 1))
        for token in own { parkedRequests.leave(token) }
    }
}
