// SPDX-License-Identifier: Apache-2.0
import NIOCore
import Testing

@testable import ControlServer

/// How long connections rest that have said much at once.
@Suite("The crowd")
struct ReadThrottleTests {
    @Test(
        "each rests twice as long as others of its user had, and one of each other user's; a second at most")
    func pauseGrowsWithOtherReaders() {
        let crowd = ReadThrottle()
        let least = TimeAmount.microseconds(100)
        let alone = crowd.enter(for: .milliseconds(10), of: 1, least: least)
        #expect(alone.rest == least)
        let second = crowd.enter(for: .milliseconds(20), of: 1, least: least)
        #expect(second.rest == .milliseconds(20))
        #expect(crowd.enter(for: .milliseconds(1), of: 1, least: least).rest == .milliseconds(60))
        let other = crowd.enter(for: .milliseconds(5), of: 2, least: least)
        #expect(other.rest == .milliseconds(40))
        crowd.leave(second.ticket)
        #expect(crowd.enter(for: .milliseconds(1), of: 3, least: least).rest == .milliseconds(30))
        crowd.leave(alone.ticket)
        crowd.leave(other.ticket)
        #expect(crowd.enter(for: .seconds(2), of: 2, least: least).rest == .milliseconds(4))
        #expect(crowd.enter(for: .seconds(2), of: 3, least: least).rest == .seconds(1))
    }
}
