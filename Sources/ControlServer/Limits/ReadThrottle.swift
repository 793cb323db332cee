// SPDX-License-Identifier: Apache-2.0
import NIOCore

/// Connections that have said much at once and rest, and how long each had the loop before. On the event loop only.
///
/// Each lets go first all others of its user's that do the same, and one of each other user's: so it costs a user's programs
/// nothing how many another one has.
final class ReadThrottle {
    /// Of one that rests; to be given back once.
    struct ThrottleTicket {
        fileprivate let user: UInt32
        fileprivate let turn: TimeAmount
    }

    private static let longest = TimeAmount.seconds(1)
    private var turns: [UInt32: [TimeAmount]] = [:]

    /// How long a connection is to rest after so long a turn: long enough that the loop is idle for as long as it serves such
    /// connections, and `least` at least.
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
