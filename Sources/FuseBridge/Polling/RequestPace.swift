// SPDX-License-Identifier: Apache-2.0

/// Detects that the requests come from a single thread, and in such quick succession that polling is worthwhile.
package struct RequestPace {
    /// A request after a shorter pause, in nanoseconds, was there already: no poll would have been needed, so it does not
    /// count.
    private static let atOnce: UInt64 = 2_000
    private static let enough = 8
    /// A change of the client weighs as much as so many requests without a change, because successive programs make some
    /// requests each.
    private static let change = 4
    private static let tooManyChanges = 4
    private static let mostChanges = 16

    private var soon = 0
    private var changes = 0
    private var last: UInt32 = 0

    package init() {}

    /// Whether a single thread seems to make the requests.
    private var isOne: Bool { changes <= Self.change * Self.tooManyChanges }

    /// Notes the thread that made a request, 0 for none, and returns whether all requests seem to come from one thread.
    package mutating func note(_ thread: UInt32) -> Bool {
        if thread != 0 {
            changes =
                thread == last
                ? max(0, changes - 1) : min(changes + Self.change, Self.change * Self.mostChanges)
            last = thread
        }
        return isOne
    }

    /// Returns whether to begin polling after a request that was noted.
    ///
    /// `pause` is the time in which no request was served before it, in nanoseconds.
    package mutating func shouldPoll(after pause: UInt64) -> Bool {
        if pause > BusyPolling.longest || !isOne { soon = 0 } else if pause > Self.atOnce { soon += 1 }
        guard soon >= Self.enough else { return false }
        soon = 0
        return true
    }
}
