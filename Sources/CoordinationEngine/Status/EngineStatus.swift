// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem
import Synchronization

// The status of the engine, for `truce status`.

extension Engine {
    /// The status of the mount at this moment.
    package func report(options: EffectiveOptions, dataPath: DataPath) -> StatusReport {
        var report = StatusReport(
            options: options, dataPath: dataPath, counters: counters.snapshot, waiting: waitingClaims,
            journal: journal.entries.map(Self.step))
        report.runs = runs.reports
        report.use.claims = withState { $0.claims.count }
        if delays.hasGuests {
            (report.delays, report.delaysOfAll) = (delays.reports(at: Self.now), delays.sums(at: Self.now))
        }
        return report
    }

    /// The number of claims that are visited each time the lock is taken. It is small, because requests wait for the
    /// lock.
    private static let statusBatchSize = 512

    /// The waiting claims, the oldest first.
    private var waitingClaims: [WaitingClaim] {
        let claims = withState { Array($0.claims.keys) }
        var waiting: [(ClaimID, ClaimRecord, Instant, (any Claimant)?)] = []
        forEachPart(of: claims.sorted()[...], atOnce: Self.statusBatchSize) { ids, state in
            for claim in ids {
                guard let entry = state.claims[claim] else { continue }
                switch entry.phase {
                case .waiting(let since), .waitingWithHandler(let since, _):
                    waiting.append((claim, entry, since, state.blocker(of: claim) ?? entry.blocker))
                case .decided, .held: continue
                }
            }
        }
        return waiting.map { claim, entry, since, blocker in
            let attribution = entry.claimant.attribution
            return WaitingClaim(
                claim: claim, actor: Self.actor(attribution), access: entry.claimant.intents[0].access,
                path: attribution.path(), since: since,
                holders: blocker.map { [Self.actor($0.attribution)] } ?? [])
        }
    }

    private static func step(_ entry: JournalEntry) -> JournalStep {
        let attribution = entry.subject?.attribution
        return JournalStep(
            sequence: entry.sequence, moment: entry.moment, kind: entry.step, claim: entry.claim,
            actor: attribution.map(actor), path: attribution?.path() ?? [], detail: entry.detail)
    }

    private static func actor(_ attribution: Attribution) -> ProcessDescription {
        ProcessDescription(attribution)
    }
}

extension LiveCounters {
    fileprivate var snapshot: Counters {
        var counters = Counters()
        counters.granted = granted.value
        counters.waited = waited.value
        counters.asked = asked.value
        counters.forfeited = forfeited.value
        counters.proceeded = proceeded.value
        counters.yielded = yielded.value
        counters.suspended = suspended.value
        counters.deadlocks = deadlocks.value
        counters.retried = retried.value
        counters.parkedUnderLock = parkedUnderLock.value
        counters.stale = stale.value
        counters.interrupted = interrupted.value
        counters.identified = identified.value
        counters.suspected = suspected.value
        counters.unseen = unseen.value
        counters.harmless = harmless.value
        counters.merged = merged.value
        counters.preserved = preserved.value
        counters.reads = reads.value
        counters.writes = writes.value
        counters.listed = listed.value
        return counters
    }
}

extension Attribution {
    /// The process, and the name of its program. If they are not stored, both are looked up by the id of the thread.
    /// The name is nil if the thread has ended.
    package var identity: (process: Int32, program: [UInt8]?) {
        if let process, let program { return (process, program) }
        guard isStillThere else { return (process ?? thread, program) }
        return (
            process ?? ProcessInspection.process(ofThread: thread) ?? thread,
            program ?? ProcessInspection.program(ofThread: thread)
        )
    }

    /// Whether the thread still exists. False if its id now belongs to a later thread.
    var isStillThere: Bool {
        guard thread > 0, let status = ProcessInspection.status(ofProcess: thread) else { return false }
        return ProcessInspection.hadStarted(status.started, at: acted.nanoseconds)
    }
}
