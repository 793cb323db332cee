// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The number of claims of each kind by which an identified program holds a resource and keeps others out.
///
/// The second claim of a kind holds up no claim that the first does not. So of ten thousand threads that are granted one
/// after another, only for the first are relatives reviewed that may overtake others (Q3).
struct HoldCounts: Sendable {
    struct HoldKind: Hashable, Sendable {
        let resource: Resource
        let partyNumber: PartyNumber
        let isWrite: Bool
        let accessPattern: UInt8
        let isAware: Bool
    }

    private var counts: [HoldKind: Int] = [:]

    var count: Int { counts.count }

    func contains(_ kind: HoldKind) -> Bool { counts[kind] != nil }

    /// Adds a claim; returns whether it is the first of its kind.
    mutating func enter(_ kind: HoldKind) -> Bool {
        let present = counts[kind] ?? 0
        counts[kind] = present + 1
        return present == 0
    }

    /// Removes a claim; returns whether it was the last of its kind.
    mutating func leave(_ kind: HoldKind) -> Bool {
        guard let present = counts[kind] else { return false }
        counts[kind] = present > 1 ? present - 1 : nil
        return present == 1
    }
}

extension Arbiter {
    private func kind(of claim: Claim, _ lock: RequiredLock) -> HoldCounts.HoldKind {
        HoldCounts.HoldKind(
            resource: lock.resource, partyNumber: claim.partyNumber, isWrite: lock.isWrite,
            accessPattern: claim.accessPattern.rawValue,
            isAware: claim.nature == .aware)
    }

    /// Counts a holder; returns whether it is the first of its kind on any resource.
    mutating func countHold(_ claim: Claim) -> Bool {
        var isFirst = false
        claim.forEachRequiredLock { if countHold(claim, at: $0) { isFirst = true } }
        return isFirst
    }

    mutating func countHold(_ claim: Claim, at lock: RequiredLock) -> Bool {
        claim.isCountedHold && holdCounts.enter(kind(of: claim, lock))
    }

    /// Uncounts a holder; returns whether it was the last of its kind on any resource.
    mutating func uncountHold(_ claim: Claim) -> Bool {
        var isLast = false
        claim.forEachRequiredLock { if uncountHold(claim, at: $0) { isLast = true } }
        return isLast
    }

    mutating func uncountHold(_ claim: Claim, at lock: RequiredLock) -> Bool {
        claim.isCountedHold && holdCounts.leave(kind(of: claim, lock))
    }

    /// Whether a claim of its own program keeps out all waiters that are not exempt, except changes of names.
    ///
    /// That claim writes, and its handle neither appends nor locks (X6).
    func programHoldsExclusively(_ claim: Claim, of resource: Resource) -> Bool {
        guard claim.partyNumber != 0 else { return false }
        return [false, true].contains { isAware in
            holdCounts.contains(
                HoldCounts.HoldKind(
                    resource: resource, partyNumber: claim.partyNumber, isWrite: true, accessPattern: 0,
                    isAware: isAware))
        }
    }
}

extension Claim {
    /// Whether it keeps others out on account of its program.
    var isCountedHold: Bool { isHeld && partyNumber != 0 && suspension == nil }
}
