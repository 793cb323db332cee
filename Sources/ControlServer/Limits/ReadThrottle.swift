// SPDX-License-Identifier: Apache-2.0
import NIOCore

/// The connections that pause because they sent much input, and how long each occupied the event loop before its pause. Used
/// only on the event loop.
///
/// The pause gives time to the other connections that pause. For the same user, all of them count. For each other user, only
/// the connection that needs the most time counts. So a user with many connections does not lengthen the pauses of other users.
final class ReadThrottle {
    /// A ticket that a connection gets when it begins to pause, and returns once when the pause ends.
    struct ThrottleTicket {
        fileprivate let user: UInt32
        fileprivate let turn: TimeAmount
    }

    private static let longest = TimeAmount.seconds(1)
    private var turns: [UInt32: [TimeAmount]] = [:]

    /// Adds a connection that occupied the loop for `turn`, and returns how long it pauses.
    ///
    /// The pause is twice as long as the other connections need, so the loop has as much time for other work as for these
    /// connections. The pause is at least `least` and at most a second.
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
