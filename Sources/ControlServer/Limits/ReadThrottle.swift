// SPDX-License-Identifier: Apache-2.0
import NIOCore

/// The connections that pause after much input, and how long each occupied the loop before. On the event loop only.
///
/// A pause lasts as long as all other such connections of the same user need, and a single connection of each other user. So a
/// user's programs do not suffer from the number of another user's connections.
final class ReadThrottle {
    /// The ticket of a connection that pauses; to be returned once.
    struct ThrottleTicket {
        fileprivate let user: UInt32
        fileprivate let turn: TimeAmount
    }

    private static let longest = TimeAmount.seconds(1)
    private var turns: [UInt32: [TimeAmount]] = [:]

    /// Returns how long a connection pauses after it occupied the loop for `turn`.
    ///
    /// The loop is then idle for as long as it serves such connections. The limits are `least` and a second.
    func enter(for turn: TimeAmount, of user: UInt32, least: TimeAmount) -> (
        ticket: ThrottleTicket, rest: TimeAmount
    ) {
        let others = turns.reduce(TimeAmount.zero) { sum, share in
            share.key == user
                ? share.value.reduce(sum) { $0 + $1 } : sum + (share.value.max() ?? TimeAmount.zero)
        }
        turns[user, default: []].append(turn)
        return (ThrottleTicket(user: user, turn: turn), min(max(least, others * 2), Self.longest))
    }

    func leave(_ ticket: ThrottleTicket) {
        guard let index = turns[ticket.user]?.firstIndex(of: ticket.turn) else { return }
        turns[ticket.user]?.remove(at: index)
        if turns[ticket.user]?.isEmpty == true { turns[ticket.user] = nil }
    }
}
