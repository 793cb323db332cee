// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Finds and ends deadlocks.
extension NaiveArbiter {
    /// A step of a cycle of waiting claims: the claim `next`, for which the previous claim of the cycle waits. If the previous
    /// claim waits for a held claim that can end only after `next`, `holder` is this held claim.
    private struct NaiveWaitEdge {
        let next: Int
        let holder: Int?
    }

    /// D1: whether a waiting claim must end before a held claim can end. It must if it was made within the held access, or by
    /// the program that holds the claim.
    private func depends(_ holder: Int, on waiter: Int) -> Bool {
        guard claims[holder].isHeld, !claims[waiter].isHeld else { return false }
        guard [.handle, .aware].contains(claims[holder].nature) else { return false }
        if claims[holder].nature == .handle, claims[holder].isClosed { return false }
        guard let one = claims[holder].party, let other = claims[waiter].party else { return false }
        if claims[waiter].request.within.contains(claims[holder].id) { return true }
        guard areOfOneProgram(holder, waiter) else { return false }
        let areThreads =
            one.process == other.process && one.thread != 0 && other.thread != 0 && one.thread != other.thread
        return !areThreads
    }

    /// D2: the claims that a waiting claim waits for, in the order of claim numbers.
    private func steps(from waiter: Int) -> [NaiveWaitEdge] {
        let open = openQuestions(of: waiter).map(\.id)
        let answering = claims.indices.filter { other in
            claims[other].party != nil && (claims[other].request.answering.map { open.contains($0) } ?? false)
        }
        var steps: [NaiveWaitEdge] = []
        for other in blockers(of: waiter) {
            if claims[other].isHeld {
                let hung = claims.indices.filter { depends(other, on: $0) }
                steps += hung.map { NaiveWaitEdge(next: $0, holder: other) }
            } else {
                steps.append(NaiveWaitEdge(next: other, holder: nil))
            }
        }
        for other in answering {
            if !claims[other].isHeld { steps.append(NaiveWaitEdge(next: other, holder: nil)) }
            let inner = claims.indices.filter { index in
                !claims[index].isHeld && claims[index].party != nil
                    && claims[index].request.within.contains(claims[other].id)
            }
            steps += inner.map { NaiveWaitEdge(next: $0, holder: other) }
        }
        return steps.sorted { ($0.next, $0.holder ?? -1) < ($1.next, $1.holder ?? -1) }
    }

    /// D2, D4: returns a cycle through the claim with the lowest number of all claims on cycles; nil if there is no cycle.
    private func cycle() -> [NaiveWaitEdge]? {
        for start in claims.indices where !claims[start].isHeld {
            var seen: Set<Int> = []
            if let path = path(from: start, to: start, &seen) { return path }
        }
        return nil
    }

    private func path(from claim: Int, to goal: Int, _ seen: inout Set<Int>) -> [NaiveWaitEdge]? {
        for step in steps(from: claim) {
            if step.next == goal { return [step] }
            guard seen.insert(step.next).inserted else { continue }
            if let rest = path(from: step.next, to: goal, &seen) { return [step] + rest }
        }
        return nil
    }

    /// D5: whether so many processes have waiting claims that cycles are searched only at whole seconds.
    var hasManyPrograms: Bool {
        let parties = claims.filter { !$0.isHeld }.compactMap(\.party)
        let processes = parties.flatMap { [$0.process, $0.partner?.process] }.compactMap { $0 }
        return Set(processes).count > limits.programs
    }

    /// D5: schedules a search at the next whole second if there is a cycle while many programs wait.
    mutating func noteDeferredCycle() {
        if !hasManyPrograms { return searchDue = nil }
        guard searchDue == nil, cycle() != nil else { return }
        let second: UInt64 = 1_000_000_000
        searchDue = Instant(nanoseconds: (now.nanoseconds / second + 1) * second)
    }

    /// D5: ends all cycles at a whole second.
    mutating func breakDeferredCycles() {
        searchDue = nil
        while breakCycle() { advance() }
    }

    /// D3, D4: reports a cycle and ends it.
    ///
    /// - Returns: whether there was a cycle.
    mutating func breakCycle() -> Bool {
        guard let steps = cycle() else { return false }
        let waiting = steps.map(\.next).sorted()
        let holders = steps.compactMap(\.holder)
        var order: [Int] = [waiting[0]]
        for step in steps {
            if let holder = step.holder { order.append(holder) }
            if step.next != waiting[0] { order.append(step.next) }
        }
        let (resolution, index) = remedy(waiting, holders)
        let ids = order.map { claims[$0].id }
        effects.append(.deadlock(Deadlock(cycle: ids, resolution, claims[index].id)))
        switch resolution {
        case .overtakes: claims[index].overtakes = true
        case .suspends: suspend(index, .deadlocked)
        case .refuses: refuse(index, .deadlock)
        case .proceeds: grant(index, .proceeded)
        }
        return true
    }

    /// D3: returns the first step of the list in D3 that can end the cycle, and the claim to which the step applies.
    private func remedy(_ waiting: [Int], _ holders: [Int]) -> (Deadlock.Resolution, Int) {
        let passing = waiting.first { index in
            openQuestions(of: index).isEmpty && blockers(of: index).allSatisfy { !claims[$0].isHeld }
        }
        if let passing { return (.overtakes, passing) }
        let handles = holders.filter { claims[$0].nature == .handle }.sorted()
        if let handle = handles.first(where: { claims[$0].onlyReads }) ?? handles.first {
            return (.suspends, handle)
        }
        if let youngest = waiting.last(where: { claims[$0].isOfSocket }) { return (.refuses, youngest) }
        return (.proceeds, waiting[waiting.count - 1])
    }
}
