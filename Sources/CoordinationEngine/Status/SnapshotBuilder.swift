// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import LinuxSystem
import Synchronization

// Collects claims, presenters, and the blockers of each claim for the status output.

extension Engine {
    /// Facts that are collected under the lock. They are formatted after the lock is released, because the text needs
    /// `/proc` and names of files.
    private struct Facts {
        var claims: [(id: ClaimID, entry: ClaimRecord, suspension: Suspension?, Explanation)] = []
        /// The known users of the collected claims and presenters.
        var users: Set<UInt32> = []
        var presenters:
            [(
                id: PresenterID, entry: PresenterEntry, unansweredQuestions: [Question], isDemoted: Bool,
                isUnsaved: Bool
            )] =
                []
    }

    /// The claims and presenters of one item. If `item` is nil, the claims and presenters of the whole mount.
    ///
    /// Returns the oldest claims and presenters, at most `limit` of each. The method can read `/proc` and then blocks.
    package func snapshot(of item: ItemID?, atMost limit: Int = .max) -> CoordinationSnapshot {
        let facts = facts(of: item, atMost: limit)
        let now = Self.now
        return CoordinationSnapshot(
            claims: facts.claims.map { id, entry, suspension, explanation in
                let intents = entry.claimant.intents.map { IntentReport($0.access, $0.path()) }
                return ClaimReport(
                    claim: id,
                    actor: ProcessDescription(
                        lookingAt: entry.claimant.attribution, in: runOfClaimant(entry.claimant)),
                    intents: intents,
                    state: entry.isWaiting ? .waiting : suspension.map { .suspended($0) } ?? .held,
                    since: entry.since, reasons: entry.isWaiting ? explanation.sentences : [],
                    exceeded: exceeded(by: entry, at: now))
            },
            presenters: facts.presenters.map { id, entry, unansweredQuestions, isDemoted, isUnsaved in
                PresenterReport(
                    presenter: id, actor: ProcessDescription(lookingAt: entry.attribution), path: entry.path,
                    messages: entry.messages,
                    unansweredQuestions: unansweredQuestions.map(PresenterReport.UnansweredQuestion.init),
                    isDemoted: isDemoted,
                    isUnsaved: isUnsaved)
            },
            delays: item != nil && delays.hasGuests ? delays.reports(among: facts.users, at: now) : nil)
    }

    /// The run of a claimant. The process is looked up only while there is a run.
    private func runOfClaimant(_ claimant: any Claimant) -> RunID? {
        if runs.isEmpty { return nil }
        let party = claimant.identify()
        return party.isLease ? nil : party.run
    }

    private func exceeded(by entry: ClaimRecord, at now: Instant) -> DelayReport? {
        guard case .suspended(let account) = entry.delayLimit else { return nil }
        return delays.reports(of: account, at: now).first { $0.spent >= $0.allowed }
    }

    /// The number of entries that are read each time the lock is taken. It is small, because requests wait for the
    /// lock.
    static let snapshotBatchSize = 32

    /// Copies the numbers of claims and presenters under the lock, and sorts them after the lock is released. Claims
    /// and presenters that end before their facts are read are left out.
    private func facts(of item: ItemID?, atMost limit: Int) -> Facts {
        let (claims, presenters): ([ClaimID], [PresenterID]) = withState { state in
            guard let item else { return (Array(state.claims.keys), Array(state.presenters.keys)) }
            return (state.arbiter.claims(on: item, atMost: limit), state.arbiter.presenters(of: item))
        }
        let now = Self.now
        var facts = Facts()
        forEachPart(of: claims.sorted().prefix(limit)) { ids, state in
            for id in ids {
                guard let entry = state.claims[id] else { continue }
                let explanation = entry.isWaiting ? state.explanation(of: id, at: now) : Explanation(at: now)
                facts.claims.append((id, entry, state.arbiter.suspension(of: id), explanation))
                facts.users.formUnion(
                    [entry.claimant.opener, state.arbiter.party(of: id)?.user].compactMap { $0 })
            }
        }
        forEachPart(of: presenters.sorted().prefix(limit)) { ids, state in
            for id in ids {
                guard let entry = state.presenters[id] else { continue }
                facts.users.formUnion(entry.party.user.map { [$0] } ?? [])
                facts.presenters.append(
                    (
                        id, entry, state.arbiter.openQuestions(of: id), state.arbiter.isDemoted(id),
                        state.unsaved.isUnsaved(id)
                    ))
            }
        }
        return facts
    }

    /// Calls the body with one part of the list after another. Each call is made under the lock, which is released
    /// between the calls.
    func forEachPart<ID>(
        of ids: ArraySlice<ID>, atOnce most: Int = snapshotBatchSize, _ body: (ArraySlice<ID>, State) -> Void
    ) {
        var rest = ids
        while !rest.isEmpty {
            let part = rest.prefix(most)
            rest = rest.dropFirst(most)
            withState { body(part, $0) }
        }
    }
}

extension Engine.State {
    /// Returns the reason why a claim waits: its blocker, the blocker of that claim, and so on.
    func explanation(of claim: ClaimID, at now: Instant) -> Explanation {
        var explanation = Explanation(at: now)
        var (next, seen): (ClaimID?, Set<ClaimID>) = (claim, [])
        while let id = next, seen.insert(id).inserted, explanation.links.count < Explanation.longest,
            let entry = claims[id]
        {
            next = explain(id, entry.claimant, in: &explanation)
        }
        return explanation
    }

    /// Adds the direct blockers of a claim to an explanation. Returns the next claim of the chain.
    private func explain(
        _ claim: ClaimID, _ claimant: any Claimant, in explanation: inout Explanation
    ) -> ClaimID? {
        // For a claim that the present event has refused, the arbiter has stored its last blocker and questions.
        let refused = arbiter.lastWait(of: claim)
        let blocker = refused.map(\.blocker) ?? arbiter.blocker(of: claim)
        let questions = refused?.questions ?? arbiter.openQuestions(for: claim)
        var answering: ClaimID?
        for question in questions {
            guard let presenter = presenters[question.presenter] else { continue }
            explanation.links.append(.presenter(waiting: .claimant(claimant), presenter, question))
            answering = answering ?? arbiter.answerers(of: question.id).first
        }
        guard let blocker, let other = claims[blocker] else { return answering }
        let overlap = overlap(of: claim, with: blocker)
        guard !other.isWaiting else {
            explanation.links.append(
                .queued(waiting: .claimant(claimant), .claimant(other.claimant), overlap))
            return blocker
        }
        explanation.links.append(
            .holder(waiting: .claimant(claimant), .claimant(other.claimant), overlap))
        guard let hung = arbiter.dependencies(of: blocker).first, let waiting = claims[hung] else {
            return nil
        }
        explanation.links.append(
            .dependency(.claimant(other.claimant), on: .claimant(waiting.claimant)))
        return hung
    }

    private func overlap(of waiting: ClaimID, with other: ClaimID) -> Explanation.ClaimOverlap {
        switch arbiter.conflict(of: waiting, with: other) {
        case .item, nil: .item
        case .package: .package
        case .contents(let directory): arbiter.items(of: waiting).contains(directory) ? .below : .above
        }
    }

    /// Returns the claims of a deadlock at the moment at which it was found.
    func explanation(of deadlock: Deadlock, at now: Instant) -> Explanation {
        var explanation = Explanation(at: now)
        explanation.cycle = deadlock.cycle.compactMap { claim in
            claims[claim].map {
                Explanation.CycleMember(claimant: .claimant($0.claimant), isWaiting: $0.isWaiting)
            }
        }
        return explanation
    }
}

extension Engine.ClaimRecord {
    var isWaiting: Bool {
        switch phase {
        case .waiting, .waitingWithHandler: true
        case .decided, .held: false
        }
    }
}

extension ProcessDescription {
    /// Describes a process by its pid and not by the id of the thread, because users know the pid.
    init(_ attribution: Attribution) {
        let (process, program) = attribution.identity
        self.init(pid: process, program: program ?? [], name: attribution.run?.name)
    }

    /// Describes a process and its user. Reads them from `/proc` if the attribution does not have them.
    fileprivate init(lookingAt attribution: Attribution, in run: RunID? = nil) {
        self.init(attribution)
        // A process of a run has the name of the run, and any other process the name in its environment.
        name =
            name ?? run?.name
            ?? ProcessInspection.environment(ofProcess: pid, [ActorName.variable])[0]
            .flatMap { String(validating: $0, as: UTF8.self) }.flatMap { ActorName.isValid($0) ? $0 : nil }
        user = attribution.user
        if user == nil, attribution.isStillThere {
            user = ProcessInspection.status(ofThread: attribution.thread)?.user
        }
    }
}

extension PresenterReport.UnansweredQuestion {
    fileprivate init(_ question: Question) {
        let party = question.cause.party
        self.init(
            request: question.request, asked: question.asked, deadline: question.deadline,
            actor: ProcessDescription(
                pid: party.shownProcess, user: party.user, program: party.program))
    }
}
