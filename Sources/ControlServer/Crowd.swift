// SPDX-License-Identifier: Apache-2.0
import NIOCore

/// Connections that have said much at once and rest, and how long each had the loop before. On the event loop only.
final class Crowd {
    /// Of one that rests; to be given back once.
    struct Place {
        fileprivate let turn: TimeAmount
    }

    private var turns = TimeAmount.zero

    /// Returns how long all others had the loop together.
    func enter(for turn: TimeAmount) -> (place: Place, others: TimeAmount) {
        defer { turns = turns + turn }
        return (Place(turn: turn), turns)
    }

    func leave(_ place: Place) { turns = turns - place.turn }
}
