// SPDX-License-Identifier: Apache-2.0

/// The state of a mount. The request `status` and the command `truce status --json` return this form.
package struct StatusForm: Hashable, Sendable, Codable {
    package var mount: MountForm
    package var pid: Int32
    package var version: String
    package var options: OptionsForm
    package var counters: CountersForm
    /// The numbers of claims, files and descriptors that the daemon has; nil in a reply of an older daemon.
    package var use: ResourceUsageForm?
    /// How the daemon notices changes out of band. It is nil for an in-place mount, because such a mount has no changes out of
    /// band.
    package var around: SourceWatchForm?
    package var rules: RulesForm?
    /// How long each guest has delayed each other user; nil if there are no guests.
    package var delays: [DelayForm]?
    /// How long all guests together have delayed each user. It contains only users that were delayed longer than one guest
    /// alone may delay them.
    package var delaysOfAll: [DelayForm]?
    /// The runs, the oldest first; nil in a reply of an older daemon.
    package var runs: [RunForm]?
    package var waiting: [WaitingClaimForm]
    package var journal: [JournalStepForm]

    package init(
        mount: MountForm, pid: Int32, version: String, options: OptionsForm, counters: CountersForm,
        use: ResourceUsageForm? = nil, around: SourceWatchForm? = nil, rules: RulesForm? = nil,
        delays: [DelayForm]? = nil,
        delaysOfAll: [DelayForm]? = nil, runs: [RunForm]? = nil, waiting: [WaitingClaimForm],
        journal: [JournalStepForm]
    ) {
        (self.delays, self.delaysOfAll) = (delays, delaysOfAll)
        self.around = around
        self.runs = runs
        self.rules = rules
        self.mount = mount
        self.pid = pid
        self.version = version
        self.options = options
        self.counters = counters
        self.use = use
        self.waiting = waiting
        self.journal = journal
    }
}

/// The options that are in force. Their times are in milliseconds.
package struct OptionsForm: Hashable, Sendable, Codable {
    package var wait: UInt64 = 0
    package var hold: UInt64 = 0
    package var holdAware: UInt64 = 0
    package var idle: UInt64 = 0
    package var lockwait: UInt64 = 0
    package var relinquish: UInt64 = 0
    package var save: UInt64 = 0
    package var deletion: UInt64 = 0
    package var askAgain: UInt64 = 0
    package var askAgainStat: UInt64 = 0
    package var guestDelay: UInt64 = 0
    package var policy = ""
    /// The data path that the user has chosen: `auto` or `daemon`.
    package var data = ""
    /// The data path in use: `passthrough` or `daemon`. Before the first request it is `undecided`.
    package var dataPath = ""
    package var allowOther = false
    package var readOnly = false
    package var nosuid = false
    package var nodev = false
    package var noexec = false
    package var inPlace = false

    package init() {}
}

package struct CountersForm: Hashable, Sendable, Codable {
    package var granted: UInt64 = 0
    package var waited: UInt64 = 0
    package var asked: UInt64 = 0
    package var forfeited: UInt64 = 0
    package var proceeded: UInt64 = 0
    package var yielded: UInt64 = 0
    package var suspended: UInt64 = 0
    package var deadlocks: UInt64 = 0
    package var bounced: UInt64 = 0
    package var parkedUnderLock: UInt64 = 0
    package var estale: UInt64 = 0
    package var interrupted: UInt64 = 0
    package var identified: UInt64 = 0
    package var kept: UInt64 = 0
    package var suspected: UInt64 = 0
    package var unseen: UInt64 = 0
    package var harmless: UInt64 = 0
    package var merged: UInt64 = 0
    package var read: UInt64 = 0
    package var write: UInt64 = 0
    package var listed: UInt64 = 0

    package init() {}
}

/// The numbers of claims, files and descriptors that the daemon has now.
package struct ResourceUsageForm: Hashable, Sendable, Codable {
    package var claims = 0
    package var openFiles = 0
    package var routes = 0
    package var backingFiles = 0
    package var descriptors = 0

    package init() {}
}

/// How the daemon notices changes out of band: changes that other programs make to the files below the mount.
package struct SourceWatchForm: Hashable, Sendable, Codable {
    /// The interface of the kernel that reports changes out of band: `fanotify`, `inotify`, or `none`.
    package var watch = ""
    /// The reason why the daemon does not notice some changes; nil if it notices all changes.
    package var shortage: String?
    package var changes: UInt64 = 0
    /// How many times the kernel's queue of changes was full, so that changes were lost. After each loss, the daemon checked
    /// all files.
    package var losses: UInt64 = 0

    package init() {}
}

/// How long a guest has made another user wait in the current hour. The times are in milliseconds.
package struct DelayForm: Hashable, Sendable, Codable {
    /// The guest that caused the delay; nil for all guests together.
    package var guest: UInt32?
    /// The user that was delayed; nil for programs of unknown users.
    package var delayed: UInt32?
    package var spent: UInt64
    package var allowed: UInt64
    /// The milliseconds until the end of the current hour. After that, the delay is counted from 0 again.
    package var left: UInt64

    package init(guest: UInt32?, delayed: UInt32?, spent: UInt64, allowed: UInt64, left: UInt64) {
        (self.guest, self.delayed, self.spent, self.allowed, self.left) = (
            guest, delayed, spent, allowed, left
        )
    }
}

/// The rules about programs, and the files that contain the rules.
package struct RulesForm: Hashable, Sendable, Codable {
    package struct File: Hashable, Sendable, Codable {
        /// The path of the file. It is `shipped` for the rules that are part of Truce.
        package var path: String
        /// The reason why none of the file's rules is in force; nil if the rules are in force.
        package var problem: String?

        package init(path: String, problem: String? = nil) {
            self.path = path
            self.problem = problem
        }
    }

    package struct Program: Hashable, Sendable, Codable {
        /// The table of the rule: the raw value of a ``ProgramTable``.
        package var table: String
        package var name: String
        /// Whether the table applies to the program. It is false if the rule takes the program out of the table.
        package var belongs: Bool
        /// The path of the file that contains the rule.
        package var from: String

        package init(table: String, name: String, belongs: Bool, from: String) {
            self.table = table
            self.name = name
            self.belongs = belongs
            self.from = from
        }
    }

    /// The files with rules. If two files have rules for the same program, the rule in the later file applies.
    package var files: [File]
    package var programs: [Program]

    package init(files: [File], programs: [Program]) {
        self.files = files
        self.programs = programs
    }
}

package struct ProcessDescriptionForm: Hashable, Sendable, Codable {
    package var pid: Int32
    package var user: UInt32?
    package var program: String
    /// The run of the process, or else the name that its environment has in TRUCE_ACTOR; nil if there is none.
    package var name: String?

    package init(pid: Int32, user: UInt32?, program: [UInt8], name: String? = nil) {
        self.pid = pid
        self.user = user
        self.name = name
        self.program = String(decoding: program, as: UTF8.self)
    }
}

package struct WaitingClaimForm: Hashable, Sendable, Codable {
    package var claim: UInt64
    package var actor: ProcessDescriptionForm
    /// The access of the claim: `read`, or the write option.
    package var access: String
    package var path: String
    package var pathBytes: String?
    /// The time at which the claim began to wait, in milliseconds of the monotonic clock.
    package var since: UInt64
    package var holders: [ProcessDescriptionForm]

    package init(
        claim: UInt64, actor: ProcessDescriptionForm, access: String, path: [UInt8], since: UInt64,
        holders: [ProcessDescriptionForm]
    ) {
        self.claim = claim
        self.actor = actor
        self.access = access
        (self.path, self.pathBytes) = PathForm(path).parts
        self.since = since
        self.holders = holders
    }
}

package struct JournalStepForm: Hashable, Sendable, Codable {
    package var sequence: UInt64
    /// The time of the step, in milliseconds of the monotonic clock.
    package var milliseconds: UInt64
    package var step: String
    package var claim: UInt64?
    package var actor: ProcessDescriptionForm?
    package var path: String
    package var pathBytes: String?
    package var detail: String

    package init(
        sequence: UInt64, milliseconds: UInt64, step: String, claim: UInt64?, actor: ProcessDescriptionForm?,
        path: [UInt8],
        detail: String
    ) {
        self.sequence = sequence
        self.milliseconds = milliseconds
        self.step = step
        self.claim = claim
        self.actor = actor
        (self.path, self.pathBytes) = PathForm(path).parts
        self.detail = detail
    }
}
