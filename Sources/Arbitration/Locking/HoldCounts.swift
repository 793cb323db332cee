// SPDX-License-Identifier: Apache-2.0
import Coordination

/// The number of claims of each kind by which an identified program holds a resource and makes other claims wait.
///
/// A second claim of a kind makes only those claims wait that the first one makes wait. So when ten thousand threads
/// of a program are granted, the arbiter reviews related claims only for the first of them (Q3).
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

    /// Adds a claim. Returns whether it is the first claim of its kind.
    mutating func enter(_ kind: HoldKind) -> Bool {
        let present = counts[kind] ?? 0
        counts[kind] = present + 1
        return present == 0
    }

    /// Removes a claim. Returns whether it was the last claim of its kind.
    mutating func leave(_ kind: HoldKind) -> Bool {
        guard let present = counts[kind] else { return false }
        counts[kind] = present > 1 ? present - 1 : nil
        return present == 1
    }
}

extension Claim {
    /// Whether ``HoldCounts`` counts the claim: it is held, identified and not suspended.
    var isCountedHold: Bool { isHeld && partyNumber != 0 && suspension == nil }
}
