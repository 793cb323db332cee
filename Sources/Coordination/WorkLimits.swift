// SPDX-License-Identifier: Apache-2.0

/// From when on not all claims are looked at for one event.
///
/// One user may have a hundred thousand of them. What an event takes must not grow with them, since each request waits for it.
public struct WorkLimits: Hashable, Sendable {
    /// If claims of more programs wait, cycles are looked for at whole seconds only (D5).
    public var programs = 64
    /// If more wait for one thing, and until half as many do, none passes them but by what its own program holds there (Q5).
    public var queue = 256
    /// How many writers a grant lists (G5). Each of them is looked at before it is passed.
    public var preempted = 16
    /// If more hold one thing, alike ones are looked at as one, and so many of them at most have a contest (Y11).
    public var holders = 64
    /// How many alarms one tick deals with (T5).
    public var timers = 512
    /// What may be looked at for cycles until the next whole second, and then again (D5).
    public var steps = 20_000
    /// And of that from each claim on which something hangs, before all of them have had their turn (D5).
    public var stepsPerRoot = 512

    public init() {}
}
