// SPDX-License-Identifier: Apache-2.0

/// What happens when a wait runs out.
public enum Policy: String, Hashable, Sendable, CaseIterable {
    /// Go ahead, and keep what may be lost.
    case proceed
    /// Refuse with EBUSY. Opens for reading go ahead all the same: an editor that cannot read shows an
    /// empty buffer, which its user may then save.
    case fail
}

/// Every limit of time the arbiter knows, and what follows when the first runs out.
public struct Bounds: Hashable, Sendable {
    /// One request's whole wait.
    public var wait: Span = .seconds(15)
    /// How long an open handle may keep others out, counted from the contest.
    public var hold: Span = .seconds(10)
    /// The same for an access of a program that knows about Truce.
    public var holdAware: Span = .seconds(60)
    /// How long a writer keeps readers out after its last change, counted from the contest.
    public var idle: Span = .seconds(1)
    /// How long a request may wait while the kernel holds a lock for it.
    public var lockwait: Span = .milliseconds(250)
    /// How long a reader may stand still in the middle of a file before it yields.
    public var readerIdle: Span = .milliseconds(250)
    /// From the contest to the first look at the holder.
    ///
    /// Long enough that a program about to close its
    /// file is never looked at, short enough that nobody notices.
    public var glance: Span = .milliseconds(10)
    public var policy: Policy = .proceed

    public init() {}
}
