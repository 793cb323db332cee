// SPDX-License-Identifier: Apache-2.0

/// The outcome for a claim that has waited until its time limit.
public enum TimeoutPolicy: String, Hashable, Sendable, CaseIterable {
    /// The claim is granted, and contents that could be lost are preserved first.
    case proceed
    /// The claim is refused with EBUSY. Only an open for reading is granted: an editor that cannot read a file shows an
    /// empty buffer, and its user could then save the empty buffer.
    case fail
}

/// All time limits of the arbiter, and the policy for a wait that reaches its limit.
public struct Bounds: Hashable, Sendable {
    /// How long a claim may wait before `policy` decides about the claim.
    public var wait: TimeSpan = .seconds(15)
    /// How long an open handle may make other claims wait, counted from the start of the contention.
    public var hold: TimeSpan = .seconds(10)
    /// How long an access over the control socket may make other claims wait, counted from the start of the
    /// contention.
    public var holdAware: TimeSpan = .seconds(60)
    /// How long readers wait for a writer that no longer changes the file. The time counts from the last change, or
    /// from the start of the contention if no change follows.
    public var idle: TimeSpan = .seconds(1)
    /// How long a request may wait while the kernel holds a lock for the request.
    public var lockwait: TimeSpan = .milliseconds(250)
    /// How long other claims wait for a reader that does not move its position in the file.
    public var readerIdle: TimeSpan = .milliseconds(250)
    /// How long readers wait for a writer that has neither changed nor read anything, counted from the start of the
    /// contention.
    ///
    /// A program that empties a file directly after the open does so within this time.
    public var unchangedGrace: TimeSpan = .milliseconds(100)
    /// The time from the start of the contention to the first observation of the holder.
    ///
    /// Most programs that only access a file for a moment have closed it within this time. A user does not notice the
    /// delay.
    public var firstObservationDelay: TimeSpan = .milliseconds(10)
    /// How long a presenter may take to relinquish an item.
    public var relinquish: TimeSpan = .seconds(5)
    /// How long a presenter may take to save an item.
    public var save: TimeSpan = .seconds(10)
    /// How long a presenter may take to accommodate a deletion.
    public var deletion: TimeSpan = .seconds(5)
    /// How far a presenter that reports progress can extend its time to relinquish, to save or to accommodate a
    /// deletion. The claims that wait for the presenter can wait longer by the same time.
    public var progress: TimeSpan = .seconds(60)
    /// How long after a question to save, or after a save, reads cause no further question to save.
    public var askAgain: TimeSpan = .seconds(2)
    /// How long after a question to save the same command in the same POSIX session causes no second question. This
    /// limit is for commands that only read attributes, such as `ls -l`.
    public var askAgainStat: TimeSpan = .seconds(30)
    /// How long in total a guest may delay the requests of one other user in one hour.
    public var guestDelay: TimeSpan = .seconds(60)
    /// How long an access session goes on after its last claim has ended. At the end of the session its presenter is
    /// told of the changes.
    public var trailing: TimeSpan = .milliseconds(100)
    /// How long an access session goes on after the last change of a name in the session. One save changes several
    /// names.
    public var steps: TimeSpan = .milliseconds(250)
    /// The time without an access of a process after which a presenter is again asked about the process. Until then the
    /// presenter is not asked, because it has forfeited a question about this process.
    public var excused: TimeSpan = .seconds(2)
    public var policy: TimeoutPolicy = .proceed

    public init() {}
}
