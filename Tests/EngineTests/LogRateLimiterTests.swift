// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import Testing

@Suite("Limits of log lines about one user")
struct LogRateLimiterTests {
    private let start = Instant(nanoseconds: 1)

    @Test("a user causes few log lines per minute, and the next line says how many were left out")
    func aUserCausesFewLogLinesPerMinute() {
        var limit = LogRateLimiter(lines: 3)
        let said = (0..<10).map { second in limit.note(7, at: start + .seconds(UInt64(second))) }
        #expect(said == ["", "", ""] + Array(repeating: nil, count: 7))
        #expect(limit.note(8, at: start + .seconds(20)) == "", "another user's are its own")
        #expect(limit.note(7, at: start + .seconds(60)) == " (and 7 times before, unnoted)")
        #expect(limit.note(7, at: start + .seconds(61)) == "")
    }

    @Test("users above the number of remembered users are not logged until a minute has passed")
    func usersAboveTheLimitOfRememberedUsersAreNotLoggedForAMinute() {
        var limit = LogRateLimiter(lines: 1)
        for user in 0..<64 { #expect(limit.note(UInt32(user), at: start) == "") }
        #expect(limit.note(64, at: start) == nil)
        #expect(limit.note(64, at: start + .seconds(60)) == "")
    }
}
