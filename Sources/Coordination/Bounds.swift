// SPDX-License-Identifier: Apache-2.0

/// The outcome of a wait that reaches its limit.
public enum TimeoutPolicy: String, Hashable, Sendable, CaseIterable {
    /// Go ahead, and preserve contents that may be lost.
    case proceed
    /// Refuse with EBUSY. Opens for reading still go ahead: an editor that cannot read shows an empty buffer, which
    /// its user may then save.
    case fail
}

/// All time limits of the arbiter, and the policy for a wait that reaches its limit.
public struct Bounds: Hashable, Sendable {
    /// The whole wait of a request.
    public var wait: TimeSpan = .seconds(15)
    /// How long an open handle may make others wait, counted from the start of the contention.
    public var hold: TimeSpan = .seconds(10)
    /// The same for an access over the control socket.
    public var holdAware: TimeSpan = .seconds(60)
    /// How long a writer makes readers wait after its last change, counted from the start of the contention.
    public var idle: TimeSpan = .seconds(1)
    /// How long a request may wait while the kernel holds a lock for it.
    public var lockwait: TimeSpan = .milliseconds(250)
    /// How long a reader may be idle before it yields.
    public var readerIdle: TimeSpan = .milliseconds(250)
    /// How long a writer that has neither changed nor read anything makes readers wait, from the start of the
    /// contention.
    ///
    /// Long enough for a program that empties the file right after it has opened it.
    public var unchangedGrace: TimeSpan = .milliseconds(100)
    /// The time from the start of the contention to the first observation of the holder.
    ///
    /// Long enough that a program about to close its file is never observed, and too short for a user to notice.
    public var firstObservationDelay: TimeSpan = .milliseconds(10)
    /// How long a presenter may take to relinquish an item.
    public var relinquish: TimeSpan = .seconds(5)
    /// How long a presenter may take to save an item.
    public var save: TimeSpan = .seconds(10)
    /// How long a presenter may take to accommodate a deletion.
    public var deletion: TimeSpan = .seconds(5)
    /// How far a presenter's progress may extend each of these limits, and the wait of the claims that wait for it.
    public var progress: TimeSpan = .seconds(60)
    /// For how long reads do not ask a presenter to save again.
    public var askAgain: TimeSpan = .seconds(2)
    /// For how long a repeated command of a session does not ask again for a save, if it only reads attributes.
    public var askAgainStat: TimeSpan = .seconds(30)
    /// How long a guest may make another user wait in one hour.
    public var guestDelay: TimeSpan = .seconds(60)
    /// How long after the last write of a program its presenters are told.
    public var trailing: TimeSpan = .milliseconds(100)
    /// How long after the last name change presenters are told; a save changes several names.
    public var steps: TimeSpan = .milliseconds(250)
    /// For how long a forfeited question is not asked again for accesses of the same process, counted from its last
    /// access.
    public var excused: TimeSpan = .seconds(2)
    public var policy: TimeoutPolicy = .proceed

    public init() {}
}
