// SPDX-License-Identifier: Apache-2.0
package import ControlProtocol
package import Coordination

/// Limits how many new connections guests make. A connection takes time of the daemon even before its first message.
///
/// A user may make `burst` connections at the same time, and then `perSecond` connections each second. A further limit is for
/// all guests together, because one person can have many user ids (subuid(5)).
package struct ConnectionRate: Sendable {
    /// The number of connections that are allowed at the same time, and the number that is then allowed each second.
    package struct Limit: Hashable, Sendable {
        package var burst: Int
        package var perSecond: Int

        package init(burst: Int, perSecond: Int) {
            self.burst = burst
            self.perSecond = perSecond
        }

        fileprivate var interval: TimeSpan {
            TimeSpan(nanoseconds: 1_000_000_000 / UInt64(max(perSecond, 1)))
        }
        /// A connection is refused if it takes longer than this time until a whole burst is available.
        fileprivate var reach: TimeSpan {
            TimeSpan(nanoseconds: interval.nanoseconds * UInt64(max(burst - 1, 0)))
        }
    }

    package enum ConnectionVerdict: Hashable, Sendable { case admitted, tooManyOfUser, tooManyOfGuests }

    package static let ofUser = Limit(
        burst: ProtocolLimits.connectionsAtOnce, perSecond: ProtocolLimits.connectionsPerSecond)
    package static let ofGuests = Limit(
        burst: 4 * ProtocolLimits.connectionsAtOnce, perSecond: 4 * ProtocolLimits.connectionsPerSecond)
    /// The most users that are counted separately. Connections of further users count only for the limit of all guests
    /// together.
    private static let users = 1024

    private let ofUser: Limit
    private let ofGuests: Limit
    /// For each user, the time from which the user may again make a whole burst of connections.
    private var restored: [UInt32: Instant] = [:]
    private var allRestored = Instant(nanoseconds: 0)

    package init(ofUser: Limit = Self.ofUser, ofGuests: Limit = Self.ofGuests) {
        self.ofUser = ofUser
        self.ofGuests = ofGuests
    }

    /// Decides whether a connection is admitted. Connections that are refused do not count toward the limits.
    package mutating func admit(_ user: UInt32, at now: Instant) -> ConnectionVerdict {
        let own = max(restored[user] ?? now, now)
        guard own.since(now) <= ofUser.reach else { return .tooManyOfUser }
        let all = max(allRestored, now)
        guard all.since(now) <= ofGuests.reach else { return .tooManyOfGuests }
        allRestored = all + ofGuests.interval
        if restored[user] == nil, restored.count >= Self.users {
            restored = restored.filter { $0.value > now }
        }
        if restored[user] != nil || restored.count < Self.users { restored[user] = own + ofUser.interval }
        return .admitted
    }

    /// Returns the failure for a connection that is not admitted; nil if it is admitted.
    package func refusal(_ verdict: ConnectionVerdict) -> ProtocolFailure? {
        switch verdict {
        case .admitted: nil
        case .tooManyOfUser:
            .tooMany(
                "you connect more than \(ofUser.perSecond) times a second; keep one connection open, or try again in a second"
            )
        case .tooManyOfGuests:
            .tooMany(
                "the guests of this mount connect more than \(ofGuests.perSecond) times a second; try again in a second"
            )
        }
    }
}
