// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The future moments at which the arbiter wants a tick: the event that tells it how much time has passed.
///
/// The arbiter never cancels a moment, so no moment is removed before it has come.
package struct WakeSchedule: Sendable {
    private var moments: [Instant] = []

    package init() {}

    package var next: Instant? { moments.min() }
    package var last: Instant? { moments.max() }
    package var count: Int { moments.count }

    package mutating func ask(for moment: Instant) { moments.append(moment) }

    /// Removes all moments up to `now`.
    package mutating func pass(_ now: Instant) { moments.removeAll { $0 <= now } }
}
