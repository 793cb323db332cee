// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What identified programs hold of which thing, so that it keeps others out: how many claims of each kind.
///
/// Of claims that are alike in all of this, the second holds up nobody whom the first does not. So of ten thousand threads that
/// are granted one after another, only the first lets its relatives pass others (Q3).
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

    /// Whether there was none of the kind before.
    mutating func enter(_ kind: HoldKind) -> Bool {
        let present = counts[kind] ?? 0
        counts[kind] = present + 1
        return present == 0
    }

    /// Whether none of the kind is left.
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

    /// Whether it holds something of which its kin held nothing alike before.
    mutating func countHold(_ claim: Claim) -> Bool {
        var isFirst = false
        claim.forEachRequiredLock { if countHold(claim, at: $0) { isFirst = true } }
        return isFirst
    }

    mutating func countHold(_ claim: Claim, at lock: RequiredLock) -> Bool {
        claim.isCountedHold && holdCounts.enter(kind(of: claim, lock))
    }

    /// Whether its kin hold nothing alike any more of something that it held.
    mutating func uncountHold(_ claim: Claim) -> Bool {
        var isLast = false
        claim.forEachRequiredLock { if uncountHold(claim, at: $0) { isLast = true } }
        return isLast
    }

    mutating func uncountHold(_ claim: Claim, at lock: RequiredLock) -> Bool {
        claim.isCountedHold && holdCounts.leave(kind(of: claim, lock))
    }

    /// Whether a claim of its own kin keeps out each that waits for something and is not exempt, but changes of names: it writes,
    /// and its handle neither appends nor locks (X6).
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
