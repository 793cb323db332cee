// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The moments that an arbiter has asked for and that have not come yet.
///
/// It holds all of them, because a requested wake is never cancelled.
package struct WakeSchedule: Sendable {
    private var moments: [Instant] = []

    package init() {}

    package var next: Instant? { moments.min() }
    package var last: Instant? { moments.max() }
    package var count: Int { moments.count }

    package mutating func ask(for moment: Instant) { moments.append(moment) }

    /// Removes the moments that a tick has reached.
    package mutating func pass(_ now: Instant) { moments.removeAll { $0 <= now } }
}
