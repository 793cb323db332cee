// SPDX-License-Identifier: Apache-2.0

/// Limits of the work that the arbiter does for one event.
///
/// One user may have a hundred thousand claims. The time for an event must not grow with them, since each request
/// waits for it.
public struct WorkLimits: Hashable, Sendable {
    /// If claims of more programs wait, deadlocks are searched at whole seconds only (D5).
    public var programs = 64
    /// If more claims wait in one lock queue, a claim goes before them only because of its own program's claims there
    /// (Q5). This lasts until half as many wait.
    public var queue = 256
    /// How many preempted writers a grant lists (G5). Each of them is observed before it is preempted.
    public var preempted = 16
    /// If more claims hold one resource, similar ones are treated as one, and at most this many are in contention
    /// (Y11).
    public var holders = 64
    /// How many timers one tick handles (T5).
    public var timers = 512
    /// How many search steps for deadlocks are allowed until the next whole second (D5).
    public var steps = 20_000
    /// How many of these steps each claim with dependents gets, before the search has visited all such claims (D5).
    public var stepsPerRoot = 512

    public init() {}
}
