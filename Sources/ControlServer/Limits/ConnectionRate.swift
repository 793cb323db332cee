// SPDX-License-Identifier: Apache-2.0
package import ControlProtocol
package import Coordination

/// Limits how often guests connect, because each connection costs the daemon time before its first message.
///
/// A user may open `burst` connections at once and then `perSecond`. All guests together are limited too, because a single
/// person may have many user ids (subuid(5)).
package struct ConnectionRate: Sendable {
    /// How many connections at once, and then how many a second.
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
        /// How far in the future the whole burst may become available, if a connection is admitted now.
        fileprivate var reach: TimeSpan {
            TimeSpan(nanoseconds: interval.nanoseconds * UInt64(max(burst - 1, 0)))
        }
    }

    package enum ConnectionVerdict: Hashable, Sendable { case admitted, tooManyOfUser, tooManyOfGuests }

    package static let ofUser = Limit(
        burst: ProtocolLimits.connectionsAtOnce, perSecond: ProtocolLimits.connectionsPerSecond)
    package static let ofGuests = Limit(
        burst: 4 * ProtocolLimits.connectionsAtOnce, perSecond: 4 * ProtocolLimits.connectionsPerSecond)
    /// The number of users counted separately; further users count only toward the limit of all guests.
    private static let users = 1024

    private let ofUser: Limit
    private let ofGuests: Limit
    /// When each user's whole burst will be available again.
    private var restored: [UInt32: Instant] = [:]
    private var allRestored = Instant(nanoseconds: 0)

    package init(ofUser: Limit = Self.ofUser, ofGuests: Limit = Self.ofGuests) {
        self.ofUser = ofUser
        self.ofGuests = ofGuests
    }

    /// Decides about a connection, and counts it only if it is admitted.
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

    /// The failure sent to a user that is not admitted.
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
