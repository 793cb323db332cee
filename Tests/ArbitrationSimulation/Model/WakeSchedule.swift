// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// The moments an arbiter has asked for and that have not come yet.
///
/// All of them: whoever schedules what it asks for takes none back.
package struct WakeSchedule: Sendable {
    private var moments: [Instant] = []

    package init() {}

    package var next: Instant? { moments.min() }
    package var last: Instant? { moments.max() }
    package var count: Int { moments.count }

    package mutating func ask(for moment: Instant) { moments.append(moment) }

    /// A tick has come.
    package mutating func pass(_ now: Instant) { moments.removeAll { $0 <= now } }
}
