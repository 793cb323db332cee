// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The state of a holder while a claim or a presenter waits for the holder.
struct Contention: Sendable {
    /// Y6: The moment from which the holder's time limit is counted.
    let since: Instant
    /// Y6, Y10: The moment at which the holder is suspended for all claims.
    var end: Instant
    /// Y9: The moment from which readers no longer wait for a writer that has changed nothing, even if the writer has
    /// read nothing.
    let unchangedGrace: Instant
    /// One claim that waits for the holder; nil if only a presenter waits for the holder's end.
    var blockedClaim: ClaimID?
    /// Y7: The moment of the next observation; nil for a holder that is never observed.
    var nextObservation: Instant?
    var seen: Observation?
    /// Y4, Y5: The last moment at which an observation differed from the observation before it. If no two observations
    /// have differed, the start of the contention.
    var lastChange: Instant
    var timer: Instant?

    /// Stores an observation. If it differs from the previous observation, also stores the moment.
    mutating func note(_ observation: Observation, at now: Instant) {
        if let seen, seen != observation { lastChange = now }
        seen = observation
    }
}
