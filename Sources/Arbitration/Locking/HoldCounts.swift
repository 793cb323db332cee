// SPDX-License-Identifier: Apache-2.0
import Coordination

/// For one program and one resource: the number of held claims of each kind that make other claims wait.
///
/// All claims of a kind make the same claims wait. If many claims of a program are granted, only the first grant of
/// each kind causes a review of the program's waiting claims (Q3).
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
