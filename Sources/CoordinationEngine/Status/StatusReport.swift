// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A source of status reports: a mount, or its substitute in a test.
package protocol StatusSource: Sendable {
    /// May be called on any thread, and never waits for a claim.
    func status() -> StatusReport
}

/// The data path that the administrator has chosen.
package enum DataMode: String, Hashable, Sendable, CaseIterable {
    /// Passthrough, wherever the kernel supports it.
    case automatic = "auto"
    /// All data goes through the daemon.
    case daemon
}

/// The data path in use; known once the kernel has opened the connection.
package enum DataPath: String, Hashable, Sendable, CaseIterable {
    case undecided
    case passthrough
    case daemon
}

/// The status of a mount at one moment: plain values, independent of any wire format.
package struct StatusReport: Hashable, Sendable {
    package var options: EffectiveOptions
    package var dataPath: DataPath
    package var counters: Counters
    package var use = ResourceUsage()
    /// Nil for an in-place mount, which has no bypass.
    package var sourceWatch: SourceWatchReport?
    /// The rules about programs, and their files.
    package var rules = RulesReport()
    /// The delays that guests have caused, the longest first; nil for a mount without guests.
    package var delays: [DelayReport]?
    /// The delays by all guests together that exceed the allowance of a single guest.
    package var delaysOfAll: [DelayReport]?
    /// The waiting claims, the oldest first.
    package var waiting: [WaitingClaim]
    /// The last steps, the oldest first.
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

/// The rules, and the files that they come from.
package struct RulesReport: Hashable, Sendable {
    package struct File: Hashable, Sendable {
        package let path: String
        /// Why the file is not in force; nil if it is.
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

    /// Later files override earlier ones.
    package var files: [File] = []
    package var programs: [Program] = []

    package init() {}
}

/// The detection of changes out of band.
package struct SourceWatchReport: Hashable, Sendable {
    /// `fanotify`, `inotify` or `none`.
    package var means = "none"
    /// Why the detection is incomplete; nil if it is complete.
    package var shortage: String?
    package var changes: UInt64 = 0
    /// How often the kernel's queue of events overflowed.
    package var losses: UInt64 = 0

    package init() {}
}

/// The effective options of a mount, from defaults, the command line and the mount below.
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

/// Counts of events since the mount, by kind.
package struct Counters: Hashable, Sendable {
    package var granted: UInt64 = 0
    package var waited: UInt64 = 0
    /// Questions to presenters.
    package var asked: UInt64 = 0
    /// Questions that were not answered in time.
    package var forfeited: UInt64 = 0
    /// Claims that preempted others after their wait reached its limit.
    package var proceeded: UInt64 = 0
    /// Holders that yielded, with nothing to lose.
    package var yielded: UInt64 = 0
    /// Holders that were suspended at a time limit.
    package var suspended: UInt64 = 0
    /// Claims that waited for each other.
    package var deadlocks: UInt64 = 0
    package var retried: UInt64 = 0
    /// Requests that waited while the kernel held a lock for them.
    package var parkedUnderLock: UInt64 = 0
    /// Answers of ESTALE other than retries.
    package var stale: UInt64 = 0
    package var interrupted: UInt64 = 0
    /// Lookups of the processes behind requests; none while no claim or presenter needs them.
    package var identified: UInt64 = 0
    /// Contents preserved before a step that would have destroyed them.
    package var preserved: UInt64 = 0
    /// READ requests that reached the daemon; none do under passthrough.
    package var reads: UInt64 = 0
    /// WRITE requests that reached the daemon.
    package var writes: UInt64 = 0
    /// Requests to list a directory; none while the kernel has it cached.
    package var listed: UInt64 = 0

    package init() {}
}

/// The resources of the daemon at one moment. All but descriptors and backing files are 0 when no file is open and no
/// program waits.
package struct ResourceUsage: Hashable, Sendable {
    /// Held, suspended and waiting claims.
    package var claims = 0
    /// Open files of unmodified programs.
    package var openFiles = 0
    /// Open files with a decided data path, including those being opened or closed.
    package var routes = 0
    /// Files that are registered with the kernel for passthrough.
    package var backingFiles = 0
    /// Descriptors of files and directories below the mount.
    package var descriptors = 0

    package init() {}
}

/// A process, as far as it was identified before its end.
package struct ProcessDescription: Hashable, Sendable {
    package var pid: Int32
    package var user: UInt32?
    /// The program's name; bytes, since a process may choose any name.
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
    /// The claimants that it waits for.
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
        // States of claims.
        case waited, granted, proceeded, refused, withdrawn, ended
        /// The claim waits for another item now.
        case retargeted
        /// The claim was changed to end a deadlock.
        case deadlock
        // How holders in contention stopped blocking others.
        case yielded, suspended
        // Presenters.
        case asked, answered, forfeited, told
        // How requests waited.
        case retried = "bounced"
        case parkedUnderLock, stale, interrupted
        // Names in the middle of a save.
        case vacated, filled, rolledBack, windowClosed
        // Changes of the source.
        case created, unlinked, renamed
        // Preserved versions, and versions that were dropped.
        case preserved = "kept"
        case dropped
    }

    /// Counts from 1 without gaps, so that a reader detects missed steps.
    package var sequence: UInt64
    package var moment: Instant
    package var kind: Kind
    package var claim: ClaimID?
    package var actor: ProcessDescription?
    /// Below the root of the mount, without a leading slash.
    package var path: [UInt8]
    /// A clause for people: the reason, or the preempted claims.
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
