// SPDX-License-Identifier: Apache-2.0

/// Limits of the work that the arbiter does for one event.
///
/// One user can have a hundred thousand claims. The time for one event must not grow with the number of claims, because
/// all requests wait until the arbiter has handled the event.
public struct WorkLimits: Hashable, Sendable {
    /// D5: If claims of more programs than this wait, the arbiter searches for deadlocks only at whole seconds.
    public var programs = 64
    /// Q5: If more claims than this wait in one lock queue, the queue is overlong until half as many wait. In an
    /// overlong queue, a simpler rule decides which claims go before earlier ones.
    public var queue = 256
    /// G5: How many preempted writers a grant lists. Each listed writer is observed before its contents are
    /// overwritten.
    public var preempted = 16
    /// Y11: If more claims than this hold one resource, similar holders are treated as one. At most this many of them
    /// are in contention at the same time.
    public var holders = 64
    /// T5: How many timers one `tick` event handles.
    public var timers = 512
    /// D5: How many steps the search for deadlocks may take until the next whole second.
    public var steps = 20_000
    /// D5: How many steps of the search each waiting claim gets at first. Claims that need more steps are searched
    /// after all other claims.
    public var stepsPerRoot = 512

    public init() {}
}
