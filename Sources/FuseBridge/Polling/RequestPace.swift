// SPDX-License-Identifier: Apache-2.0

/// Tells when the requests that a thread gets come from a single thread, and so soon that it is worth while to look for them.
package struct RequestPace {
    /// What comes sooner, in nanoseconds, was there already: nobody would have had to look for it, and nothing follows from it.
    private static let atOnce: UInt64 = 2_000
    private static let enough = 8
    /// Programs that follow each other make some requests each; a change weighs as much as so many requests without one.
    private static let change = 4
    private static let tooManyChanges = 4
    private static let mostChanges = 16

    private var soon = 0
    private var changes = 0
    private var last: UInt32 = 0

    package init() {}

    /// Whether it seems to be a single thread that makes requests, of which this is the last.
    private var isOne: Bool { changes <= Self.change * Self.tooManyChanges }

    /// A request was made by a thread, or by nobody, which is 0. Returns whether all seem to come from one.
    package mutating func note(_ thread: UInt32) -> Bool {
        if thread != 0 {
            changes =
                thread == last
                ? max(0, changes - 1) : min(changes + Self.change, Self.change * Self.mostChanges)
            last = thread
        }
        return isOne
    }

    /// A request came, and has been noted; `pause` is for how long nothing was served before, in nanoseconds.
    package mutating func shouldPoll(after pause: UInt64) -> Bool {
        if pause > BusyPolling.longest || !isOne { soon = 0 } else if pause > Self.atOnce { soon += 1 }
        guard soon >= Self.enough else { return false }
        soon = 0
        return true
    }
}
