// SPDX-License-Identifier: Apache-2.0
package import Coordination

/// A second, naive statement of the rules.
///
/// Every question is answered by looking at all claims, and nothing is remembered that can be found out.
/// Slow and obvious; the arbiter must agree with it.
package struct NaiveArbiter {
    package struct Entry {
        package let request: Request
        package var parts: [Request.Part]
        package var isHeld = false
        package var isAsked = false
        package var party: Party?
        package var suspension: Suspension?
        package var isClean = false
        package let deadline: Instant
        package var contestedSince: Instant?
        package var nextLook: Instant?
        package var seen: Observation?
        package var lastChange = Instant(nanoseconds: 0)

        package var id: ClaimID { request.claim }
        package var passesEverybody: Bool { [.nameChange, .episode].contains(request.nature) }
        package var isFullySuspended: Bool { suspension != nil && suspension != .idle }
        package var onlyReads: Bool { parts.allSatisfy { !$0.access.isWrite } }
    }

    let bounds: Bounds
    package init(bounds: Bounds) { self.bounds = bounds }
    /// In the order of their numbers.
    package var entries: [Entry] = []

    package mutating func handle(_ event: Event, at now: Instant) -> [Effect] {
        var effects: [Effect] = []
        switch event {
        case .claimed(let request): claim(request, now, &effects)
        case .ended(let id): remove(id, &effects)
        case .withdrawn(let id): if index(id).map({ !entries[$0].isHeld }) ?? false { remove(id, &effects) }
        case .identified(let id, let party):
            if let index = index(id), entries[index].party == nil { entries[index].party = party }
        case .forced(let id):
            if let index = index(id), !entries[index].isHeld { grant(index, .proceeded, &effects) }
        case .observed(let id, let observation): observe(id, observation, now, &effects)
        case .vacated(let document, let orphan): moveHandles(document, orphan)
        case .replaced(let document, let incoming, let orphan):
            if let orphan { moveHandles(document, orphan) }
            for index in entries.indices { move(index, incoming, document) }
        case .tick: tick(now, &effects)
        default: preconditionFailure("not stated naively yet")
        }
        settle(now, &effects)
        return effects
    }

    /// The earliest moment at which something must happen.
    package var nextMoment: Instant? { entries.compactMap { moment(of: $0) }.min() }

    private func index(_ id: ClaimID) -> Int? { entries.firstIndex { $0.id == id } }

    private mutating func claim(_ request: Request, _ now: Instant, _ effects: inout [Effect]) {
        var parts = [request.first]
        if let second = request.rest.first {
            if second.item != request.first.item {
                parts.append(second)
            } else if second.access.isWrite {
                parts = [second]
            }
        }
        entries.append(Entry(request: request, parts: parts, deadline: now + bounds.wait))
        let index = entries.count - 1
        if obstacles(of: index).isEmpty { grant(index, .free, &effects) }
    }

    private mutating func remove(_ id: ClaimID, _ effects: inout [Effect]) {
        guard let index = index(id) else { return }
        if !entries[index].isHeld { effects.append(.refuse(id, .withdrawn)) }
        entries.remove(at: index)
    }
}

/// Who is in whose way.
extension NaiveArbiter {
    /// G2, Q1, Q2, Q3, X4.
    private func obstacles(of claimant: Int) -> [Int] {
        let claim = entries[claimant]
        // G4.
        if claim.passesEverybody { return [] }
        return entries.indices.filter { other in
            guard other != claimant else { return false }
            if entries[other].isHeld { return keepsOut(other, claimant) || isHeldBack(claimant, by: other) }
            return other < claimant && meets(other, claimant) && !areExempt(other, claimant)
                && !isHeldUp(other, by: claim.party)
        }
    }

    /// The accesses of two claims to an item they both want, if one of them writes (G3).
    private func meetings(_ one: Int, _ other: Int) -> [(Access, Access)] {
        entries[one].parts.flatMap { part in
            entries[other].parts.filter { $0.item == part.item && ($0.access.isWrite || part.access.isWrite) }
                .map { (part.access, $0.access) }
        }
    }

    private func meets(_ one: Int, _ other: Int) -> Bool { !meetings(one, other).isEmpty }

    /// X1.
    private func areExempt(_ one: Int, _ other: Int) -> Bool {
        guard let party = entries[one].party, let otherParty = entries[other].party else { return false }
        return party.isExempt(from: otherParty)
    }

    private func keepsOut(_ holder: Int, _ claimant: Int) -> Bool {
        if areExempt(holder, claimant) { return false }
        return meetings(holder, claimant).contains { _, wanted in
            switch entries[holder].suspension {
            case nil: true
            case .idle: wanted.isWrite
            default: false
            }
        }
    }

    /// X4.
    private func isHeldBack(_ claimant: Int, by holder: Int) -> Bool {
        guard entries[holder].suspension != nil else { return false }
        guard entries[holder].party == nil || entries[claimant].party == nil else { return false }
        return meetings(holder, claimant).contains { $0.isWrite && $1.isWrite }
    }

    /// Q3.
    private func isHeldUp(_ waiter: Int, by party: Party?) -> Bool {
        guard let party else { return false }
        return entries.indices.contains { other in
            if entries[other].isHeld {
                return (entries[other].party?.isExempt(from: party) ?? false) && keepsOut(other, waiter)
            }
            return other < waiter && meets(other, waiter) && !areExempt(other, waiter)
                && isHeldUp(other, by: party)
        }
    }
}

/// Granting and contesting.
extension NaiveArbiter {
    private mutating func grant(_ index: Int, _ basis: Grant.Basis, _ effects: inout [Effect]) {
        // G5.
        let passed = entries.indices.filter { other in
            other != index && entries[other].isHeld && !entries[other].passesEverybody
                && !areExempt(other, index)
                && meetings(other, index).contains { $0.isWrite && $1.isWrite }
        }
        entries[index].isHeld = true
        let list = passed.map { Grant.Passed(claim: entries[$0].id, isClean: entries[$0].isClean) }
        effects.append(.grant(entries[index].id, Grant(basis: basis, passed: list)))
    }

    private mutating func settle(_ now: Instant, _ effects: inout [Effect]) {
        repeat {
            ask(&effects)
            while let next = entries.indices.first(where: { !entries[$0].isHeld && obstacles(of: $0).isEmpty }
            ) {
                grant(next, .waited, &effects)
            }
            ask(&effects)
        } while contest(now, &effects)
    }

    /// X2, X3.
    private mutating func ask(_ effects: inout [Effect]) {
        for waiter in entries.indices where !entries[waiter].isHeld {
            let obstacles = obstacles(of: waiter)
            guard !obstacles.isEmpty else { continue }
            for index in obstacles + [waiter] where !entries[index].isAsked && entries[index].party == nil {
                guard entries[index].request.nature != .episode else { continue }
                entries[index].isAsked = true
                effects.append(.identify(entries[index].id))
            }
        }
    }

    /// Y1 and the background half of Y3; whether somebody yielded.
    private mutating func contest(_ now: Instant, _ effects: inout [Effect]) -> Bool {
        var hasYielded = false
        for holder in entries.indices where entries[holder].isHeld {
            let isContested =
                !entries[holder].passesEverybody && !entries[holder].isFullySuspended
                && entries.indices.contains { !entries[$0].isHeld && keepsOut(holder, $0) }
            if !isContested {
                entries[holder].contestedSince = nil
            } else if entries[holder].contestedSince == nil {
                entries[holder].contestedSince = now
                entries[holder].lastChange = now
                entries[holder].seen = nil
                entries[holder].nextLook =
                    entries[holder].request.nature == .handle ? now + bounds.glance : nil
            }
            if isContested, entries[holder].onlyReads, entries[holder].party?.programClass == .background {
                suspend(holder, .yielded, &effects)
                hasYielded = true
            }
        }
        return hasYielded
    }

    private mutating func suspend(_ index: Int, _ suspension: Suspension, _ effects: inout [Effect]) {
        entries[index].suspension = suspension
        if suspension != .idle { entries[index].contestedSince = nil }
        effects.append(.suspend(entries[index].id, suspension))
    }

    /// Y3, Y4, Y5.
    private mutating func observe(
        _ id: ClaimID, _ observation: Observation, _ now: Instant, _ effects: inout [Effect]
    ) {
        guard let index = index(id), entries[index].contestedSince != nil else { return }
        if entries[index].seen != nil && entries[index].seen != observation {
            entries[index].lastChange = now
        }
        entries[index].seen = observation
        let still = now.since(entries[index].lastChange)
        switch observation {
        case .clean:
            entries[index].isClean = true
            suspend(index, .yielded, &effects)
        case .atEnd: suspend(index, .yielded, &effects)
        case .reading where still >= bounds.readerIdle: suspend(index, .stoodStill, &effects)
        case .dirty where still >= bounds.idle && entries[index].suspension == nil:
            suspend(index, .idle, &effects)
        default: break
        }
    }
}

/// Moving and time.
extension NaiveArbiter {
    /// R1, R2.
    private mutating func moveHandles(_ document: ItemID, _ orphan: ItemID) {
        for index in entries.indices where entries[index].isHeld && entries[index].request.nature == .handle {
            move(index, document, orphan)
        }
    }

    private mutating func move(_ index: Int, _ item: ItemID, _ other: ItemID) {
        var parts = entries[index].parts.map { $0.item == item ? Request.Part(other, $0.access) : $0 }
        if parts.count == 2, parts[0].item == parts[1].item {
            parts = [parts.first { $0.access.isWrite } ?? parts[0]]
        }
        entries[index].parts = parts
    }

    private func moment(of entry: Entry) -> Instant? {
        guard entry.isHeld else { return entry.deadline }
        guard let since = entry.contestedSince else { return nil }
        return min(since + bounds.hold, entry.nextLook ?? since + bounds.hold)
    }

    /// T4.
    private mutating func tick(_ now: Instant, _ effects: inout [Effect]) {
        while true {
            let due = entries.indices.compactMap { index in moment(of: entries[index]).map { ($0, index) } }
            guard let (moment, index) = due.min(by: { $0.0 < $1.0 || ($0.0 == $1.0 && $0.1 < $1.1) }),
                moment <= now
            else { return }
            happen(index, now, &effects)
            settle(now, &effects)
        }
    }

    private mutating func happen(_ index: Int, _ now: Instant, _ effects: inout [Effect]) {
        let entry = entries[index]
        if !entry.isHeld {
            // T1.
            if bounds.policy == .proceed || entry.onlyReads { return grant(index, .proceeded, &effects) }
            effects.append(.refuse(entry.id, .busy))
            entries.remove(at: index)
        } else if let since = entry.contestedSince, since + bounds.hold <= now {
            suspend(index, .held, &effects)
        } else {
            effects.append(.observe(entry.id))
            let fifth = min(bounds.readerIdle, bounds.idle).nanoseconds / 5
            entries[index].nextLook = now + max(Span(nanoseconds: fifth), .milliseconds(5))
        }
    }
}
