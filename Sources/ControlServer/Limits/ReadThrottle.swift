// SPDX-License-Identifier: Apache-2.0
import NIOCore

/// The connections that pause because they sent much input, and how long each occupied the event loop before its pause. Used
/// only on the event loop.
///
/// A pause is long enough to serve the other pausing connections of the same user, and one connection of each other user. A
/// user with many connections therefore does not lengthen the pauses of other users.
final class ReadThrottle {
    /// A ticket that a connection gets at the beginning of its pause, and gives back at the end of the pause.
    struct ThrottleTicket {
        fileprivate let user: UInt32
        fileprivate let turn: TimeAmount
    }

    private static let longest = TimeAmount.seconds(1)
    private var turns: [UInt32: [TimeAmount]] = [:]

    /// Adds a connection that occupied the loop for `turn`, and returns how long it pauses.
    ///
    /// The pause is twice the time that the other connections need, so that half of it is left for other work of the loop. The
    /// pause is at least `least` and at most a second.
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
