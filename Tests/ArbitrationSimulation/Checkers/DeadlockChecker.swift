// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Checks that each reported deadlock is a real cycle and is ended by an allowed step, and that no cycle remains (D1 to D4,
/// I6).
struct DeadlockChecker: Checker {
    mutating func noteEffect(
        _ effect: Effect, of event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport
    ) {
        guard case .deadlock(let deadlock) = effect else { return }
        let entries = deadlock.cycle.compactMap { model.claims[$0] }
        guard entries.count == deadlock.cycle.count, !entries.isEmpty else {
            return report.addViolation("a deadlock of claims that are over: \(deadlock.cycle)")
        }
        for (index, entry) in entries.enumerated() {
            let next = entries[(index + 1) % entries.count]
            if !waits(entry, for: next, model) {
                report.addViolation(
                    "\(entry.id) does not wait for \(next.id), but is said to: \(deadlock.cycle)")
            }
        }
        if entries[0].id != entries.filter({ !$0.isHeld }).map(\.id).min() {
            report.addViolation(
                "a deadlock does not begin with its lowest claim that waits: \(deadlock.cycle)")
        }
        check(deadlock, entries, model, &report)
    }

    private func check(
        _ deadlock: Deadlock, _ entries: [WorldModel.ClaimModel], _ model: WorldModel,
        _ report: inout ViolationReport
    ) {
        guard let claim = model.claims[deadlock.claim], deadlock.cycle.contains(deadlock.claim) else {
            return report.addViolation("a deadlock is resolved by \(deadlock.claim), who is not in it")
        }
        let handles = entries.filter { $0.isHeld && $0.nature == .handle }
        let aware = entries.filter { !$0.isHeld && ($0.nature == .aware || $0.isBatch) }
        switch deadlock.resolution {
        case .overtakes:
            let holder = model.claims.values.first {
                $0.isHeld && model.standsInTheWay($0, of: claim, certain: true)
            }
            if claim.isHeld { report.addViolation("\(claim.id) holds, and is let pass") }
            if let holder { report.addViolation("\(claim.id) is let pass though \(holder.id) keeps it out") }
        case .suspends:
            if !handles.contains(where: { $0.id == claim.id }) {
                report.addViolation("\(claim.id) is no held handle, and is suspended for a deadlock")
            }
            let reader = handles.first { $0.onlyReads }
            if let reader, !claim.onlyReads {
                report.addViolation("\(claim.id) is suspended instead of \(reader.id)")
            }
        case .refuses:
            if !handles.isEmpty { report.addViolation("\(claim.id) is refused though a handle could yield") }
            if claim.id != aware.last?.id && claim.id != aware.map(\.id).max() {
                report.addViolation("\(claim.id) is refused, and is not the youngest aware claim")
            }
        case .proceeds:
            if !handles.isEmpty || !aware.isEmpty { report.addViolation("\(claim.id) goes ahead too easily") }
            if claim.id != entries.filter({ !$0.isHeld }).map(\.id).max() {
                report.addViolation("\(claim.id) goes ahead, and it is not the youngest")
            }
        }
    }

    /// Whether it is possible that `one` waits for `other`, or that `one` can end only after `other`.
    private func waits(_ one: WorldModel.ClaimModel, for other: WorldModel.ClaimModel, _ model: WorldModel)
        -> Bool
    {
        if one.isHeld { return depends(one, on: other, certain: false) }
        if model.standsInTheWay(other, of: one, certain: false) { return true }
        guard let id = other.request.answering, let question = model.questions[id],
            let presenterModel = model.presenterModels[question.presenter]
        else { return false }
        // If an item was moved after the claim arrived, it is not known whether the claim waits for this presenter.
        return model.concerns(presenterModel, one) || model.lastStructuralChange >= one.number
    }

    /// D1: whether a waiting claim must end before a held claim can end. It must if it was made within the held access, or by
    /// the program that holds the claim.
    private func depends(_ holder: WorldModel.ClaimModel, on waiter: WorldModel.ClaimModel, certain: Bool)
        -> Bool
    {
        guard holder.isHeld, !waiter.isHeld, [.handle, .aware].contains(holder.nature) else { return false }
        if holder.nature == .handle, holder.isClosed { return false }
        if waiter.request.within.contains(holder.id) { return true }
        guard let party = holder.party, let other = waiter.party, party.isExempt(from: other) else {
            return false
        }
        let areOtherThreads =
            party.process == other.process && party.thread != 0 && other.thread != 0
            && party.thread != other.thread
        return !areOtherThreads
    }

    mutating func finish(after event: ArbiterEvent, _ model: WorldModel, _ report: inout ViolationReport) {
        // Only identified claims count. A claim without a party can turn out to be a relative's claim, and relatives never wait
        // for each other.
        let waiting = model.waiting.filter { $0.party != nil }
        if waiting.count < 2, waiting.allSatisfy({ $0.request.within.isEmpty }) { return }
        // The time for this check grows at least with the square of the number of claims. So with very many claims the check
        // runs only at ticks.
        if waiting.count * model.claims.count > 400, event != .tick { return }
        var next: [ClaimID: [ClaimID]] = [:]
        for claim in waiting {
            for other in model.claims.values
            where other.party != nil && model.standsInTheWay(other, of: claim, certain: true) {
                if other.isHeld {
                    next[claim.id, default: []] += waiting.filter { depends(other, on: $0, certain: true) }
                        .map(\.id)
                } else {
                    next[claim.id, default: []].append(other.id)
                }
            }
        }
        // D1: a claim that waits for an answer also waits for the claims that were made to give that answer.
        for (question, asker) in model.askers {
            let answerers = model.claims.values.filter {
                $0.request.answering == question && $0.party != nil
            }
            let inner = waiting.filter { !Set($0.request.within).isDisjoint(with: answerers.map(\.id)) }
            next[asker, default: []] += answerers.filter { !$0.isHeld }.map(\.id) + inner.map(\.id)
        }
        if let start = Self.cycle(in: next) { report.addViolation("a deadlock is left, with \(start) in it") }
    }

    /// Returns a claim that lies on a cycle of the graph; nil if there is no cycle.
    static func cycle(in next: [ClaimID: [ClaimID]]) -> ClaimID? {
        // Removes claims that wait for no other claim, until no such claim is left. Only cycles remain, and claims that wait
        // for a cycle.
        var left = next
        while true {
            let dead = left.filter { !$0.value.contains { left[$0] != nil } }.keys
            if dead.isEmpty { break }
            for id in dead { left[id] = nil }
        }
        return left.keys.min()
    }
}
