// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import Coordination
import Testing

/// Protocol.md, Guests: limits on the number of new connections per second.
struct ConnectionRateTests {
    private let start = Instant(nanoseconds: 1_000_000_000)

    @Test(
        "a user may make a burst of connections and then a limited number a second, whatever other users do")
    func eachUserHasALimitOfConnectionsPerSecond() {
        var rate = ConnectionRate(
            ofUser: .init(burst: 5, perSecond: 10), ofGuests: .init(burst: 100, perSecond: 100))
        for _ in 0..<5 { #expect(rate.admit(7, at: start) == .admitted) }
        #expect(rate.admit(7, at: start) == .tooManyOfUser)
        #expect(rate.admit(8, at: start) == .admitted)
        // A user is admitted again every 100 ms. Refused connections do not delay the next admission.
        for _ in 0..<50 { #expect(rate.admit(7, at: start + .milliseconds(99)) == .tooManyOfUser) }
        #expect(rate.admit(7, at: start + .milliseconds(100)) == .admitted)
        #expect(rate.admit(7, at: start + .milliseconds(100)) == .tooManyOfUser)
        // Five connections are admitted at the same moment, and no more, however long the user has made no connection.
        for _ in 0..<5 { #expect(rate.admit(7, at: start + .seconds(100)) == .admitted) }
        #expect(rate.admit(7, at: start + .seconds(100)) == .tooManyOfUser)
        #expect(rate.refusal(.tooManyOfUser)?.message.contains("10 times a second") == true)
        #expect(rate.refusal(.admitted) == nil)
    }

    @Test("all guests together have one limit of connections, however many user numbers they use")
    func allGuestsShareALimitOfConnections() {
        var rate = ConnectionRate(
            ofUser: .init(burst: 5, perSecond: 10), ofGuests: .init(burst: 2000, perSecond: 2000))
        let admitted = (UInt32(100)..<100_000).count { rate.admit($0, at: start) == .admitted }
        #expect(admitted == 2000)
        #expect(rate.admit(7, at: start) == .tooManyOfGuests)
        #expect(rate.admit(7, at: start + .milliseconds(1)) == .admitted)
    }
}
