// SPDX-License-Identifier: Apache-2.0

/// Limits of the work that the arbiter does for one event.
///
/// One user may have a hundred thousand claims. The time for one event must not grow with their number, because all
/// requests wait until the arbiter has handled it.
public struct WorkLimits: Hashable, Sendable {
    /// D5: If claims of more programs than this wait, the arbiter searches for deadlocks only at whole seconds.
    public var programs = 64
    /// Q5: If more claims than this wait in one lock queue, the queue is overlong until half as many wait. A claim
    /// then goes before the waiting claims only because of claims that its own program holds there.
    public var queue = 256
    /// G5: How many preempted writers a grant lists. Each of them is observed before it is preempted.
    public var preempted = 16
    /// Y11: If more claims than this hold one resource, similar holders are treated as one. At most this many of them
    /// are in contention at the same time.
    public var holders = 64
    /// T5: How many timers one `tick` event handles.
    public var timers = 512
    /// D5: How many steps the search for deadlocks may take until the next whole second.
    public var steps = 20_000
    /// D5: How many of these steps the search spends on each waiting claim at first. Claims that need more steps come
    /// after all other claims.
    public var stepsPerRoot = 512

    public init() {}
}
