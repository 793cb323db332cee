// SPDX-License-Identifier: Apache-2.0
import Coordination

/// What identified programs hold of which thing, so that it keeps others out: how many claims of each kind.
///
/// Of claims that are alike in all of this, the second holds up nobody whom the first does not. So of ten thousand threads that
/// are granted one after another, only the first lets its relatives pass others (Q3).
struct Strongholds: Sendable {
    struct Kind: Hashable, Sendable {
        let resource: Resource
        let kin: Kin
        let isWrite: Bool
        let conduct: UInt8
        let isAware: Bool
    }

    private var counts: [Kind: Int] = [:]

    var count: Int { counts.count }

    func contains(_ kind: Kind) -> Bool { counts[kind] != nil }

    /// Whether there was none of the kind before.
    mutating func enter(_ kind: Kind) -> Bool {
        let present = counts[kind] ?? 0
        counts[kind] = present + 1
        return present == 0
    }

    /// Whether none of the kind is left.
    mutating func leave(_ kind: Kind) -> Bool {
        guard let present = counts[kind] else { return false }
        counts[kind] = present > 1 ? present - 1 : nil
        return present == 1
    }
}

extension Arbiter {
    private func kind(of claim: Claim, _ stake: Stake) -> Strongholds.Kind {
        Strongholds.Kind(
            resource: stake.resource, kin: claim.kin, isWrite: stake.isWrite, conduct: claim.conduct.rawValue,
            isAware: claim.nature == .aware)
    }

    /// Whether it holds something of which its kin held nothing alike before.
    mutating func fortify(_ claim: Claim) -> Bool {
        var isFirst = false
        claim.forEachStake { if fortify(claim, at: $0) { isFirst = true } }
        return isFirst
    }

    mutating func fortify(_ claim: Claim, at stake: Stake) -> Bool {
        claim.isStrong && strongholds.enter(kind(of: claim, stake))
    }

    /// Whether its kin hold nothing alike any more of something that it held.
    mutating func abandon(_ claim: Claim) -> Bool {
        var isLast = false
        claim.forEachStake { if abandon(claim, at: $0) { isLast = true } }
        return isLast
    }

    mutating func abandon(_ claim: Claim, at stake: Stake) -> Bool {
        claim.isStrong && strongholds.leave(kind(of: claim, stake))
    }

    /// Whether a claim of its own kin keeps out each that waits for something and is not exempt, but changes of names: it writes,
    /// and its handle neither appends nor locks (X6).
    func isMaster(_ claim: Claim, of resource: Resource) -> Bool {
        guard claim.kin != 0 else { return false }
        return [false, true].contains { isAware in
            strongholds.contains(
                Strongholds.Kind(
                    resource: resource, kin: claim.kin, isWrite: true, conduct: 0, isAware: isAware))
        }
    }
}

extension Claim {
    /// Whether it keeps others out on account of its program.
    var isStrong: Bool { isHeld && kin != 0 && suspension == nil }
}
