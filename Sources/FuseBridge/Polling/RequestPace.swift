// SPDX-License-Identifier: Apache-2.0

/// Detects that all requests come from one thread, and so quickly one after another that polling saves time.
package struct RequestPace {
    /// A time in nanoseconds. If the daemon gets the next request within this time, the request was already waiting, so polling
    /// would have saved no time. Such a request does not count.
    private static let atOnce: UInt64 = 2_000
    private static let enough = 8
    /// A request from another thread than the request before adds this number to `changes`. A request from the same thread
    /// subtracts 1. So programs that run one after another, with some requests each, do not prevent polling.
    private static let change = 4
    private static let tooManyChanges = 4
    private static let mostChanges = 16

    private var soon = 0
    private var changes = 0
    private var last: UInt32 = 0

    package init() {}

    /// Whether all recent requests seem to come from one thread.
    private var isOne: Bool { changes <= Self.change * Self.tooManyChanges }

    /// Notes the thread that made a request; 0 if no thread made it. Returns whether all recent requests seem to come from one
    /// thread.
    package mutating func note(_ thread: UInt32) -> Bool {
        if thread != 0 {
            changes =
                thread == last
                ? max(0, changes - 1) : min(changes + Self.change, Self.change * Self.mostChanges)
            last = thread
        }
        return isOne
    }

    /// Returns whether polling should begin after a request for which ``note(_:)`` was called.
    ///
    /// `pause` is how long no request was being served before this request, in nanoseconds.
    package mutating func shouldPoll(after pause: UInt64) -> Bool {
        if pause > BusyPolling.longest || !isOne { soon = 0 } else if pause > Self.atOnce { soon += 1 }
        guard soon >= Self.enough else { return false }
        soon = 0
        return true
    }
}
