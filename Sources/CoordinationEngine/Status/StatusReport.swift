// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Whatever can say how it stands: a mount, or its stand-in in a test.
package protocol StatusSource: Sendable {
    /// May be called on any thread, and never waits for a claim.
    func status() -> StatusReport
}

/// Which way the contents of files travel when the administrator has a say.
package enum DataMode: String, Hashable, Sendable, CaseIterable {
    /// The kernel reads and writes the files below itself wherever it lets us arrange that.
    case automatic = "auto"
    /// Every byte goes through the daemon.
    case daemon
}

/// Which way the contents of files travel in fact; known once the kernel has opened the connection.
package enum DataPath: String, Hashable, Sendable, CaseIterable {
    case undecided
    case passthrough
    case daemon
}

/// How a mount stands at one moment: plain values, so that the engine knows nothing of any wire format.
package struct StatusReport: Hashable, Sendable {
    package var options: EffectiveOptions
    package var dataPath: DataPath
    package var counters: Counters
    package var use = ResourceUsage()
    /// Nil in place, where there is no way around the mount.
    package var sourceWatch: SourceWatchReport?
    /// The rules about programs, and the files that they come from.
    package var rules = RulesReport()
    /// What guests have made other users wait, the longest first; nil where there are no guests.
    package var delays: [DelayReport]?
    /// The same of all guests together, where that is more than one may.
    package var delaysOfAll: [DelayReport]?
    /// Claims that wait now, the oldest first.
    package var waiting: [WaitingClaim]
    /// The last steps, in the order in which they were taken.
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

/// The files that rules are from, and the rules.
package struct RulesReport: Hashable, Sendable {
    package struct File: Hashable, Sendable {
        package let path: String
        /// Why nothing that it says is in force, if so.
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

    /// The later ones decide before the former.
    package var files: [File] = []
    package var programs: [Program] = []

    package init() {}
}

/// How changes around a mount are noticed.
package struct SourceWatchReport: Hashable, Sendable {
    /// `fanotify`, `inotify` or `none`.
    package var means = "none"
    /// Why not everything is noticed, if so.
    package var shortage: String?
    package var changes: UInt64 = 0
    /// How often there were more than the kernel keeps.
    package var losses: UInt64 = 0

    package init() {}
}

/// The options a mount runs under, after defaults, the command line and the mount below had their say.
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

/// What happened since the mount, by kind.
package struct Counters: Hashable, Sendable {
    package var granted: UInt64 = 0
    package var waited: UInt64 = 0
    /// Requests put to presenters.
    package var asked: UInt64 = 0
    /// Presenters whose time ran out.
    package var forfeited: UInt64 = 0
    /// Went ahead over a claim because the wait ran out.
    package var proceeded: UInt64 = 0
    /// Let others pass with nothing to lose.
    package var yielded: UInt64 = 0
    /// Let others pass because a bound ran out.
    package var suspended: UInt64 = 0
    /// Claims that waited for each other.
    package var deadlocks: UInt64 = 0
    package var retried: UInt64 = 0
    /// Waited while the kernel held a lock for the request.
    package var parkedUnderLock: UInt64 = 0
    /// Answers of ESTALE other than a bounce's.
    package var stale: UInt64 = 0
    package var interrupted: UInt64 = 0
    /// Looks at the processes behind requests; none while nobody is concerned.
    package var identified: UInt64 = 0
    /// Contents kept before a step that would have lost them.
    package var preserved: UInt64 = 0
    /// READ requests that reached the daemon; none do under passthrough.
    package var reads: UInt64 = 0
    /// WRITE requests that reached the daemon.
    package var writes: UInt64 = 0
    /// Requests for names of a directory; none while the kernel has them.
    package var listed: UInt64 = 0

    package init() {}
}

/// What the daemon has at one moment. When no program has a file open and none waits, all but the descriptors and the backing
/// files is 0.
package struct ResourceUsage: Hashable, Sendable {
    /// Held, suspended and waiting.
    package var claims = 0
    /// Open files of unmodified programs.
    package var openFiles = 0
    /// Open files whose way of data is decided: those that are open, and those that are being opened or closed.
    package var routes = 0
    /// Files that the kernel keeps open for passthrough.
    package var backingFiles = 0
    /// Descriptors of files and directories below.
    package var descriptors = 0

    package init() {}
}

/// Who acts, as far as could be found out before it was gone.
package struct ProcessDescription: Hashable, Sendable {
    package var pid: Int32
    package var user: UInt32?
    /// The program's name; bytes, since a process may call itself anything.
    package var program: [UInt8]

    package init(pid: Int32, user: UInt32? = nil, program: [UInt8]) {
        self.pid = pid
        self.user = user
        self.program = program
    }
}

/// A claim that has not been granted yet.
package struct WaitingClaim: Hashable, Sendable {
    package var claim: ClaimID
    package var actor: ProcessDescription
    package var access: Access
    /// Below the root of the mount, without a leading slash.
    package var path: [UInt8]
    package var since: Instant
    /// Those it waits for.
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

/// One step of the journal: who did what, to what, and why.
package struct JournalStep: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        // What became of claims.
        case waited, granted, proceeded, refused, withdrawn, ended
        /// Goes on waiting for another item.
        case retargeted
        /// Was done something about, because claims waited for each other.
        case deadlock
        // How holders let others pass.
        case yielded, suspended
        // Presenters.
        case asked, answered, forfeited, told
        // How requests waited.
        case retried = "bounced"
        case parkedUnderLock, stale, interrupted
        // Names in the middle of a save.
        case vacated, filled, rolledBack, windowClosed
        // What was done to the directory below.
        case created, unlinked, renamed
        // What was kept, and what need not be kept any more.
        case preserved = "kept"
        case dropped
    }

    /// Counts from 1 and never skips, so that a reader sees whether it missed steps.
    package var sequence: UInt64
    package var moment: Instant
    package var kind: Kind
    package var claim: ClaimID?
    package var actor: ProcessDescription?
    /// Below the root of the mount, without a leading slash.
    package var path: [UInt8]
    /// One clause for people: why, or over whom.
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
