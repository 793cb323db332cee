// SPDX-License-Identifier: Apache-2.0

/// What happens when a wait runs out.
public enum TimeoutPolicy: String, Hashable, Sendable, CaseIterable {
    /// Go ahead, and keep what may be lost.
    case proceed
    /// Refuse with EBUSY. Opens for reading go ahead all the same: an editor that cannot read shows an
    /// empty buffer, which its user may then save.
    case fail
}

/// Every limit of time the arbiter knows, and what follows when the first runs out.
public struct Bounds: Hashable, Sendable {
    /// One request's whole wait.
    public var wait: TimeSpan = .seconds(15)
    /// How long an open handle may keep others out, counted from the contest.
    public var hold: TimeSpan = .seconds(10)
    /// The same for an access of a program that knows about Truce.
    public var holdAware: TimeSpan = .seconds(60)
    /// How long a writer keeps readers out after its last change, counted from the contest.
    public var idle: TimeSpan = .seconds(1)
    /// How long a request may wait while the kernel holds a lock for it.
    public var lockwait: TimeSpan = .milliseconds(250)
    /// How long a reader may stand still before it yields.
    public var readerIdle: TimeSpan = .milliseconds(250)
    /// How long a writer that has changed nothing and read nothing keeps readers out, counted from the contest.
    ///
    /// Long enough that a program which empties the file it has just opened has its turn.
    public var unchangedGrace: TimeSpan = .milliseconds(100)
    /// From the contest to the first look at the holder.
    ///
    /// Long enough that a program about to close its
    /// file is never looked at, short enough that nobody notices.
    public var firstObservationDelay: TimeSpan = .milliseconds(10)
    /// How long a presenter may take to relinquish.
    public var relinquish: TimeSpan = .seconds(5)
    /// How long a presenter may take to save.
    public var save: TimeSpan = .seconds(10)
    /// How long a presenter may take to accommodate a deletion.
    public var deletion: TimeSpan = .seconds(5)
    /// How far a presenter's progress may extend any of these, and the wait of those who wait for it.
    public var progress: TimeSpan = .seconds(60)
    /// How long a presenter that was asked to save is not asked again because of reads.
    public var askAgain: TimeSpan = .seconds(2)
    /// How long a command that a session repeats, and that only looks at attributes, does not have a document saved again.
    public var askAgainStat: TimeSpan = .seconds(30)
    /// How long a user who is neither root nor the mount's owner may make another user wait, of an hour.
    public var guestDelay: TimeSpan = .seconds(60)
    /// How long after the last write of a program presenters are told.
    public var trailing: TimeSpan = .milliseconds(100)
    /// How long after the last step that changes names presenters are told, since a save takes several.
    public var steps: TimeSpan = .milliseconds(250)
    /// How long one forfeit answers for further accesses of the same process, counted from its last access.
    public var excused: TimeSpan = .seconds(2)
    public var policy: TimeoutPolicy = .proceed

    public init() {}
}
