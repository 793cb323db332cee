// SPDX-License-Identifier: Apache-2.0
import NIOCore
import Testing

@testable import ControlServer

/// Pauses of connections that have sent much at once.
@Suite("Read throttle")
struct ReadThrottleTests {
    @Test(
        "each pauses twice as long as others of its user did, plus one of each other user; a second at most")
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
