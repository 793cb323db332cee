// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The state of a held claim while it blocks another claim or a presenter.
struct Contention: Sendable {
    /// The moment from which its time counts (Y6).
    let since: Instant
    /// The moment at which it is fully suspended (Y6, Y10).
    var end: Instant
    /// The moment from which an unchanged writer lets readers pass even if it has read nothing (Y9).
    let unchangedGrace: Instant
    /// One waiting claim that it blocks; nil if only a presenter waits for its end.
    var blockedClaim: ClaimID?
    /// The moment of its next observation; nil if it is never observed (Y7).
    var nextObservation: Instant?
    var seen: Observation?
    /// The beginning of the contention, or the last observation that differed from the one before (Y4, Y5).
    var lastChange: Instant
    var timer: Instant?

    /// Notes an observation, and whether it differs from the one before.
    mutating func note(_ observation: Observation, at now: Instant) {
        if let seen, seen != observation { lastChange = now }
        seen = observation
    }
}
