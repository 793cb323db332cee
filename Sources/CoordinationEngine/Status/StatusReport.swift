// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A source of status reports: a mount, or a substitute in a test.
package protocol StatusSource: Sendable {
    /// Returns the present status. Can be called on any thread, and never waits for a claim.
    func status() -> StatusReport
}

/// The data path that the administrator has chosen.
package enum DataMode: String, Hashable, Sendable, CaseIterable {
    /// Passthrough for all files for which the kernel supports it.
    case automatic = "auto"
    /// All data goes through the daemon.
    case daemon
}

/// The data path that is used. It is known as soon as the kernel has opened the connection to the daemon.
package enum DataPath: String, Hashable, Sendable, CaseIterable {
    case undecided
    case passthrough
    case daemon
}

/// The status of a mount at one moment, as plain values that do not depend on a format for output.
package struct StatusReport: Hashable, Sendable {
    package var options: EffectiveOptions
    package var dataPath: DataPath
    package var counters: Counters
    package var use = ResourceUsage()
    /// The detection of changes out of band; nil for an in-place mount, which has no bypass.
    package var sourceWatch: SourceWatchReport?
    /// The rules about programs, and the files with these rules.
    package var rules = RulesReport()
    /// The delays that guests have caused, the longest first; nil for a mount without guests.
    package var delays: [DelayReport]?
    /// The delays by all guests together that exceed the allowance of a single guest.
    package var delaysOfAll: [DelayReport]?
    /// The runs, the oldest first.
    package var runs: [RunReport] = []
    /// The waiting claims, the oldest first.
    package var waiting: [WaitingClaim]
    /// The last steps of the journal, the oldest first.
    package var journal: [JournalStep]

    package init(
        options: EffectiveOptions = EffectiveOptions(), dataPath: DataPath = .undecided,
        counters: Counters = Counters(), waiting: [WaitingClaim] = [], journal: [JournalStep] = []
    ) {
        self.options = options
        self.dataPath = dataPath
        self.counters = counters
        self.waiting = waiting
        self.journal = journal
    }
}

/// The rules about programs, and the files with these rules.
package struct RulesReport: Hashable, Sendable {
    package struct File: Hashable, Sendable {
        package let path: String
        /// The reason why the file has no effect; nil if it has effect.
        package let problem: String?

        package init(path: String, problem: String?) {
            self.path = path
            self.problem = problem
        }
    }

    package struct Program: Hashable, Sendable {
        package let rule: ProgramRule
        package let source: String

        package init(rule: ProgramRule, source: String) {
            self.rule = rule
            self.source = source
        }
    }

    /// The files with rules. A later file overrides the earlier ones.
    package var files: [File] = []
    package var programs: [Program] = []

    package init() {}
}

/// The detection of changes out of band.
package struct SourceWatchReport: Hashable, Sendable {
    /// The interface of the kernel that reports changes: `fanotify`, `inotify` or `none`.
    package var means = "none"
    /// The reason why the detection is incomplete; nil if it is complete.
    package var shortage: String?
    package var changes: UInt64 = 0
    /// The number of times that the kernel's queue of events overflowed.
    package var losses: UInt64 = 0

    package init() {}
}

/// The options in effect, from the defaults, the command line and the mount below.
package struct EffectiveOptions: Hashable, Sendable {
    package var bounds = Bounds()
    package var data = DataMode.automatic
    package var allowOther = false
    package var readOnly = false
    package var nosuid = false
    package var nodev = false
    package var noexec = false
    package var isInPlace = true

    package init() {}
}

/// The numbers of events since the mount was made, by kind.
package struct Counters: Hashable, Sendable {
    package var granted: UInt64 = 0
    package var waited: UInt64 = 0
    /// Questions that were sent to presenters.
    package var asked: UInt64 = 0
    /// Questions that were not answered in time.
    package var forfeited: UInt64 = 0
    /// Claims that reached their time limit and were granted although other claims blocked them.
    package var proceeded: UInt64 = 0
    /// Holders that were suspended because they had nothing to lose, such as a reader at the end of its file.
    package var yielded: UInt64 = 0
    /// Holders that were suspended at a time limit.
    package var suspended: UInt64 = 0
    /// Cycles of claims that waited for each other.
    package var deadlocks: UInt64 = 0
    package var retried: UInt64 = 0
    /// Requests that waited while the kernel held a lock for them.
    package var parkedUnderLock: UInt64 = 0
    /// Requests that were answered with ESTALE for another reason than a retry.
    package var stale: UInt64 = 0
    package var interrupted: UInt64 = 0
    /// Look-ups of the process that made a request. The process is looked up only if a claim or presenter needs it.
    package var identified: UInt64 = 0
    /// Contents that were preserved before a step that would have destroyed them.
    package var preserved: UInt64 = 0
    /// Steps by which a program would perhaps replace contents that it has not read.
    package var suspected: UInt64 = 0
    /// Suspected overwrites by which contents were lost from the document.
    package var unseen: UInt64 = 0
    /// Suspected overwrites by which nothing was lost.
    package var harmless: UInt64 = 0
    /// Suspected overwrites after which the document got the changes of both programs.
    package var merged: UInt64 = 0
    /// READ requests that reached the daemon. Under passthrough there are none.
    package var reads: UInt64 = 0
    /// WRITE requests that reached the daemon. Under passthrough there are none.
    package var writes: UInt64 = 0
    /// Requests to list a directory that reached the daemon. While the kernel has the list in its cache, there are
    /// none.
    package var listed: UInt64 = 0

    package init() {}
}

/// The resources that the daemon uses at one moment. When no file is open and no program waits, only descriptors and
/// backing files are not 0.
package struct ResourceUsage: Hashable, Sendable {
    /// The claims, held, suspended and waiting.
    package var claims = 0
    /// Open files of unmodified programs.
    package var openFiles = 0
    /// Open files for which the data path is decided, including files that are being opened or closed.
    package var routes = 0
    /// Files that are registered with the kernel for passthrough.
    package var backingFiles = 0
    /// Open descriptors of the daemon for files and directories of the source.
    package var descriptors = 0

    package init() {}
}

/// The description of a process, as far as it was read before the process ended.
package struct ProcessDescription: Hashable, Sendable {
    package var pid: Int32
    package var user: UInt32?
    /// The name of the program, as bytes, because a process may choose any name.
    package var program: [UInt8]
    /// The run of the process, or else the name that its environment has in `TRUCE_ACTOR`; nil if there is none, or if it
    /// was not looked up.
    package var name: String?

    package init(pid: Int32, user: UInt32? = nil, program: [UInt8], name: String? = nil) {
        self.pid = pid
        self.name = name
        self.user = user
        self.program = program
    }
}

/// A claim that has not been granted yet.
package struct WaitingClaim: Hashable, Sendable {
    package var claim: ClaimID
    package var actor: ProcessDescription
    package var access: Access
    /// The path below the root of the mount, without a leading slash.
    package var path: [UInt8]
    package var since: Instant
    /// The processes that the claim waits for.
    package var holders: [ProcessDescription]

    package init(
        claim: ClaimID, actor: ProcessDescription, access: Access, path: [UInt8], since: Instant,
        holders: [ProcessDescription] = []
    ) {
        self.claim = claim
        self.actor = actor
        self.access = access
        self.path = path
        self.since = since
        self.holders = holders
    }
}

/// A step of the journal: process, action, path and reason.
package struct JournalStep: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        // Changes of the state of a claim.
        case waited, granted, proceeded, refused, withdrawn, ended
        /// The claim is on another item from now on.
        case retargeted
        /// The claim was granted, suspended or refused in order to end a deadlock.
        case deadlock
        // The holder was suspended, so that other claims no longer wait for it: `yielded` if it had nothing to lose,
        // else `suspended`.
        case yielded, suspended
        // Questions to a presenter, answers of the presenter, and notices to the presenter.
        case asked, answered, forfeited, told
        // Steps of a waiting request: it got ESTALE for a retry, waits under a lock of the kernel, got ESTALE for
        // another reason, or was interrupted.
        case retried = "bounced"
        case parkedUnderLock, stale, interrupted
        // Steps of a save: a name was removed, has a file again, got its former file back, or stayed without a file.
        case vacated, filled, rolledBack, windowClosed
        // Changes of names in the source.
        case created, unlinked, renamed
        // A version was preserved, or a version was removed.
        case preserved = "kept"
        case dropped
    }

    /// The number of the step. Steps are numbered from 1 without gaps, so that a reader of the journal detects missed
    /// steps.
    package var sequence: UInt64
    package var moment: Instant
    package var kind: Kind
    package var claim: ClaimID?
    package var actor: ProcessDescription?
    /// The path below the root of the mount, without a leading slash.
    package var path: [UInt8]
    /// A text for people: the reason of the step, or the preempted claims.
    package var detail: String

    package init(
        sequence: UInt64, moment: Instant, kind: Kind, claim: ClaimID? = nil,
        actor: ProcessDescription? = nil,
        path: [UInt8] = [], detail: String = ""
    ) {
        self.sequence = sequence
        self.moment = moment
        self.kind = kind
        self.claim = claim
        self.actor = actor
        self.path = path
        self.detail = detail
    }
}
