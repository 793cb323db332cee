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

extension Claim {
    /// Whether it keeps others out on account of its program.
    var isCountedHold: Bool { isHeld && partyNumber != 0 && suspension == nil }
}
