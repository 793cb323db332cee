// SPDX-License-Identifier: Apache-2.0
import NIOCore
import Testing

@testable import ControlServer

/// Checks when the server pauses reading from a connection that has sent much at once.
@Suite("Pauses of connections that send much at once")
struct ReadThrottleTests {
    @Test(
        "a connection pauses longer the more its user's other connections send, and a little longer for each other user"
    )
    func aConnectionPausesLongerIfOtherConnectionsSendMuch() {
        let throttle = ReadThrottle()
        let least = TimeAmount.microseconds(100)
        let alone = throttle.enter(for: .milliseconds(10), of: 1, least: least)
        #expect(alone.rest == least)
        let second = throttle.enter(for: .milliseconds(20), of: 1, least: least)
        #expect(second.rest == .milliseconds(20))
        #expect(throttle.enter(for: .milliseconds(1), of: 1, least: least).rest == .milliseconds(60))
        let other = throttle.enter(for: .milliseconds(5), of: 2, least: least)
        #expect(other.rest == .milliseconds(40))
        throttle.leave(second.ticket)
        #expect(throttle.enter(for: .milliseconds(1), of: 3, least: least).rest == .milliseconds(30))
        throttle.leave(alone.ticket)
        throttle.leave(other.ticket)
        #expect(throttle.enter(for: .seconds(2), of: 2, least: least).rest == .milliseconds(4))
        #expect(throttle.enter(for: .seconds(2), of: 3, least: least).rest == .seconds(1))
    }
}
