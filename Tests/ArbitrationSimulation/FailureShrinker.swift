// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// Shortens a simulation that fails: removes steps as long as the shorter simulation still fails.
package struct FailureShrinker {
    private let bounds: Bounds
    private let checker: String
    private var budget: Int
    private let injectFault: FaultInjection?

    /// Creates a shrinker that searches for a shorter sequence of steps in which the same checker fails.
    ///
    /// All runs of the search together have at most 100 times `tries` steps.
    package init(bounds: Bounds, checker: String, tries: Int, injectFault: FaultInjection? = nil) {
        self.injectFault = injectFault
        self.bounds = bounds
        self.checker = checker
        budget = tries * 100
    }

    /// Removes halves, quarters and ever smaller parts of the steps, as long as the simulation still fails (delta debugging).
    package mutating func shrink(_ steps: [SimulationStep]) -> [SimulationStep] {
        guard var best = failing(steps) else { return steps }
        var size = max(1, best.count / 2)
        while budget > 0 {
            var hasShrunk = false
            var start = max(0, best.count - size)
            while budget > 0 {
                var candidate = best
                candidate.removeSubrange(start..<min(start + size, best.count))
                if let shorter = failing(candidate) {
                    best = shorter
                    hasShrunk = true
                }
                if start == 0 { break }
                start = max(0, min(start, best.count) - size)
            }
            if size == 1, !hasShrunk { break }
            size = max(1, size / 2)
        }
        return best
    }

    /// Runs the steps that are valid. Returns the steps up to the violation, or nil if there is no violation.
    private mutating func failing(_ steps: [SimulationStep]) -> [SimulationStep]? {
        var simulationRun = SimulationRun(bounds: bounds, injectFault: injectFault)
        var done: [SimulationStep] = []
        for step in steps where simulationRun.allows(step) {
            // Several steps in a row that advance the time are joined into one step.
            if case .advance(let span) = step, case .advance(let before) = done.last {
                done[done.count - 1] = .advance(TimeSpan(nanoseconds: before.nanoseconds + span.nanoseconds))
            } else {
                done.append(step)
            }
            budget -= 1
            simulationRun.perform(step)
            guard let finding = simulationRun.findings.first else { continue }
            return finding.checker == checker ? done : nil
        }
        return nil
    }
}

extension SimulationRun {
    /// Whether a step is still valid when earlier steps were removed. A file system would never report an invalid step.
    func allows(_ step: SimulationStep) -> Bool {
        switch step {
        case .advance, .late: return true
        case .claim(let request, _):
            return model.claims[request.claim] == nil && request.parts.allSatisfy { knows($0.place) }
        case .event(let event): return allows(event)
        }
    }

    private func knows(_ place: Place) -> Bool {
        place.directory.map { model.directories[$0] != nil } ?? true
    }

    private func allows(_ event: ArbiterEvent) -> Bool {
        switch event {
        case .identified(let claim, _), .observed(let claim, _), .locked(let claim), .closed(let claim):
            return model.claims[claim] != nil
        case .placed(let item, let directory):
            return directory.parent.map { model.directories[$0] != nil } ?? (item.rawValue == 1)
        case .forgotten(let item): return isUnused(item)
        case .presented(let presenter):
            return model.presenterModels[presenter.id] == nil && knows(presenter.place)
        case .shown(let presenter, _, let place):
            return model.presenterModels[presenter].map { $0.item == nil } ?? false && knows(place)
        case .removed(let presenter), .answered(_, let presenter, _):
            return model.presenterModels[presenter] != nil
        case .changed(let item, let place, _, let claim, _), .written(let item, let place, _, let claim, _),
            .deleted(let item, let place, _, let claim):
            return knows(place) && isHeld(claim) && !model.gone.contains(item)
        case .created(_, let place, _, let claim): return knows(place) && isHeld(claim)
        case .lost(_, let place, _), .relinked(_, _, let place), .versioned(_, let place, _, _):
            return knows(place)
        case .moved(let item, let move, _, let claim):
            guard knows(move.from), knows(move.to), isHeld(claim) else { return false }
            guard let directory = model.directories[item] else { return true }
            let target = move.to.directory.map { [$0] + model.above($0, Place()) } ?? []
            return directory.parent == move.from.directory && !target.contains(item)
        default: return true
        }
    }

    private func isHeld(_ claim: ClaimID?) -> Bool {
        claim.map { model.claims[$0]?.isHeld ?? false } ?? true
    }

    private func isUnused(_ directory: ItemID) -> Bool {
        model.directories[directory] != nil
            && !model.directories.values.contains { $0.parent == directory }
            && !model.claims.values.contains { claim in
                claim.parts.contains { $0.item == directory || $0.place.directory == directory }
            }
            && !model.presenterModels.values.contains {
                $0.item == directory || $0.place.directory == directory
            }
    }
}
