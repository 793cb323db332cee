// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine

/// Converts the engine's status to the form of the protocol. The only decision here is how many entries of each list are sent.
extension StatusForm {
    init(_ report: StatusReport, mount: ControlledMount, pid: Int32) throws {
        var budget = ReplyBudget()
        let programs = try budget.half(of: report.rules.programs.lazy.map(RulesForm.Program.init))
        let files = report.rules.files.map { RulesForm.File(path: $0.path, problem: $0.problem) }
        let waiting = try budget.half(of: report.waiting.lazy.map(WaitingClaimForm.init))
        // If the journal is too long, only its latest steps are sent.
        let journal = try budget.fill(with: report.journal.reversed().lazy.map(JournalStepForm.init))
        self.init(
            mount: mount.form, pid: pid, version: mount.version,
            options: OptionsForm(report.options, dataPath: report.dataPath),
            counters: CountersForm(report.counters), use: ResourceUsageForm(report.use),
            around: report.sourceWatch.map { SourceWatchForm($0) },
            rules: RulesForm(files: files, programs: programs),
            delays: report.delays.map { $0.map { DelayForm($0, at: Engine.now) } },
            delaysOfAll: report.delaysOfAll.map { $0.map { DelayForm($0, at: Engine.now) } },
            runs: report.runs.map(RunForm.init), waiting: waiting,
            journal: journal.reversed())
    }
}

extension OptionsForm {
    init(_ options: EffectiveOptions, dataPath: DataPath) {
        self.init()
        wait = options.bounds.wait.milliseconds
        hold = options.bounds.hold.milliseconds
        holdAware = options.bounds.holdAware.milliseconds
        idle = options.bounds.idle.milliseconds
        lockwait = options.bounds.lockwait.milliseconds
        relinquish = options.bounds.relinquish.milliseconds
        save = options.bounds.save.milliseconds
        deletion = options.bounds.deletion.milliseconds
        askAgain = options.bounds.askAgain.milliseconds
        askAgainStat = options.bounds.askAgainStat.milliseconds
        guestDelay = options.bounds.guestDelay.milliseconds
        policy = options.bounds.policy.rawValue
        data = options.data.rawValue
        self.dataPath = dataPath.rawValue
        allowOther = options.allowOther
        readOnly = options.readOnly
        nosuid = options.nosuid
        nodev = options.nodev
        noexec = options.noexec
        inPlace = options.isInPlace
    }
}

extension CountersForm {
    init(_ counters: Counters) {
        self.init()
        granted = counters.granted
        waited = counters.waited
        asked = counters.asked
        forfeited = counters.forfeited
        proceeded = counters.proceeded
        yielded = counters.yielded
        suspended = counters.suspended
        deadlocks = counters.deadlocks
        bounced = counters.retried
        parkedUnderLock = counters.parkedUnderLock
        estale = counters.stale
        interrupted = counters.interrupted
        identified = counters.identified
        kept = counters.preserved
        suspected = counters.suspected
        unseen = counters.unseen
        harmless = counters.harmless
        merged = counters.merged
        read = counters.reads
        write = counters.writes
        listed = counters.listed
    }
}

extension ResourceUsageForm {
    init(_ use: ResourceUsage) {
        self.init()
        (claims, openFiles, routes) = (use.claims, use.openFiles, use.routes)
        (backingFiles, descriptors) = (use.backingFiles, use.descriptors)
    }
}

extension SourceWatchForm {
    init(_ report: SourceWatchReport) {
        self.init()
        (watch, shortage) = (report.means, report.shortage)
        (changes, losses) = (report.changes, report.losses)
    }
}

extension DelayForm {
    init(_ report: DelayReport, at now: Instant) {
        self.init(
            guest: report.guest, delayed: report.delayed, spent: report.spent.milliseconds,
            allowed: report.allowed.milliseconds, left: report.end.since(now).milliseconds)
    }
}

extension RulesForm.Program {
    init(_ program: RulesReport.Program) {
        let rule = program.rule
        self.init(
            table: rule.table.rawValue, name: String(decoding: rule.name, as: UTF8.self),
            belongs: rule.belongs, from: program.source)
    }
}

extension ProcessDescriptionForm {
    init(_ actor: ProcessDescription) {
        self.init(pid: actor.pid, user: actor.user, program: actor.program, name: actor.name)
    }
}

extension RunForm {
    init(_ report: RunReport) {
        let globs = { (isWrite: Bool) in
            report.leases.filter { $0.isWrite == isWrite }.map(\.pattern.text)
        }
        self.init(
            run: report.run.number, name: report.run.name, pid: report.run.pid, user: report.user,
            write: globs(true), read: globs(false), uncoordinated: report.isUncoordinated,
            isWaiting: report.isWaiting, suspension: report.suspension?.rawValue, documents: report.documents)
    }
}

extension WaitingClaimForm {
    init(_ claim: WaitingClaim) {
        self.init(
            claim: claim.claim.rawValue, actor: ProcessDescriptionForm(claim.actor),
            access: claim.access.name,
            path: claim.path,
            since: claim.since.nanoseconds / 1_000_000,
            holders: claim.holders.map(ProcessDescriptionForm.init))
    }
}

extension JournalStepForm {
    init(_ step: JournalStep) {
        self.init(
            sequence: step.sequence, milliseconds: step.moment.nanoseconds / 1_000_000,
            step: step.kind.rawValue, claim: step.claim?.rawValue,
            actor: step.actor.map(ProcessDescriptionForm.init),
            path: step.path, detail: step.detail)
    }
}
