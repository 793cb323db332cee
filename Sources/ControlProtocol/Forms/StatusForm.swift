// SPDX-License-Identifier: Apache-2.0

/// How a mount stands, as `status` and `truce status --json` tell it.
package struct StatusForm: Hashable, Sendable, Codable {
    package var mount: MountForm
    package var pid: Int32
    package var version: String
    package var options: OptionsForm
    package var counters: CountersForm
    /// Missing in what older daemons say.
    package var use: ResourceUsageForm?
    /// Nil in place, where there is no way around the mount.
    package var around: SourceWatchForm?
    package var rules: RulesForm?
    /// What guests have made other users wait; nil where there are no guests.
    package var delays: [DelayForm]?
    /// The same of all guests together, where that is more than one may.
    package var delaysOfAll: [DelayForm]?
    package var waiting: [WaitingClaimForm]
    package var journal: [JournalStepForm]

    package init(
        mount: MountForm, pid: Int32, version: String, options: OptionsForm, counters: CountersForm,
        use: ResourceUsageForm? = nil, around: SourceWatchForm? = nil, rules: RulesForm? = nil,
        delays: [DelayForm]? = nil,
        delaysOfAll: [DelayForm]? = nil, waiting: [WaitingClaimForm], journal: [JournalStepForm]
    ) {
        (self.delays, self.delaysOfAll) = (delays, delaysOfAll)
        self.around = around
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

/// Effective options; times in milliseconds.
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
    /// What was asked for: `auto` or `daemon`.
    package var data = ""
    /// What is in force: `passthrough`, `daemon`, or `undecided` before the first request.
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
    package var read: UInt64 = 0
    package var write: UInt64 = 0
    package var listed: UInt64 = 0

    package init() {}
}

/// What the daemon has now.
package struct ResourceUsageForm: Hashable, Sendable, Codable {
    package var claims = 0
    package var openFiles = 0
    package var routes = 0
    package var backingFiles = 0
    package var descriptors = 0

    package init() {}
}

/// How changes around the mount are noticed.
package struct SourceWatchForm: Hashable, Sendable, Codable {
    /// `fanotify`, `inotify`, or `none`.
    package var watch = ""
    /// Why not everything is noticed, if so.
    package var shortage: String?
    package var changes: UInt64 = 0
    /// How often the kernel had more of them than it keeps, so that everything was looked at again.
    package var losses: UInt64 = 0

    package init() {}
}

/// What a guest has made another user wait in the hour that goes on; times in milliseconds.
package struct DelayForm: Hashable, Sendable, Codable {
    /// Nil for all guests together.
    package var guest: UInt32?
    /// Nil for programs of which it is not known whose they are.
    package var delayed: UInt32?
    package var spent: UInt64
    package var allowed: UInt64
    /// Until it begins anew.
    package var left: UInt64

    package init(guest: UInt32?, delayed: UInt32?, spent: UInt64, allowed: UInt64, left: UInt64) {
        (self.guest, self.delayed, self.spent, self.allowed, self.left) = (
            guest, delayed, spent, allowed, left
        )
    }
}

/// The rules about programs, by their names.
package struct RulesForm: Hashable, Sendable, Codable {
    package struct File: Hashable, Sendable, Codable {
        /// `shipped` for what is part of the program.
        package var path: String
        /// Why nothing that it says is in force, if so.
        package var problem: String?

        package init(path: String, problem: String? = nil) {
            self.path = path
            self.problem = problem
        }
    }

    package struct Program: Hashable, Sendable, Codable {
        /// Of ``ProgramTable``.
        package var table: String
        package var name: String
        /// No for a program that the table does not apply to.
        package var belongs: Bool
        /// The path of the file that says so.
        package var from: String

        package init(table: String, name: String, belongs: Bool, from: String) {
            self.table = table
            self.name = name
            self.belongs = belongs
            self.from = from
        }
    }

    /// The later ones decide before the former.
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

    package init(pid: Int32, user: UInt32?, program: [UInt8]) {
        self.pid = pid
        self.user = user
        self.program = String(decoding: program, as: UTF8.self)
    }
}

package struct WaitingClaimForm: Hashable, Sendable, Codable {
    package var claim: UInt64
    package var actor: ProcessDescriptionForm
    /// `read`, or the write option.
    package var access: String
    package var path: String
    package var pathBytes: String?
    /// On the monotonic clock, in milliseconds.
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
    /// On the monotonic clock, in milliseconds.
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
