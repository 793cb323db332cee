// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Those who hold something for which others wait.
struct Standoff: Sendable {
    /// Those with a contest.
    var contested = ClaimQueue()
    /// Those that have none, though they may come to have one: they keep out nobody of those who wait now.
    var calm: Set<ClaimID> = []

    var isEmpty: Bool { contested.isEmpty && calm.isEmpty }
}

/// How contests begin and end.
extension Arbiter {
    mutating func setContest(of holder: Claim, _ contest: Contest?) {
        let former = contests[holder.id]
        contests[holder.id] = contest
        guard (former == nil) != (contest == nil) else { return }
        holder.forEachStake { stake in
            if contest == nil {
                changeStandoff(at: stake.resource) { $0.contested.remove(holder.id) }
            } else {
                changeStandoff(at: stake.resource) { standoff in
                    standoff.contested.insert(holder.id, holder.kin)
                    standoff.calm.remove(holder.id)
                }
            }
        }
    }

    /// Notes a holder that keeps out nobody of those who wait.
    mutating func calmDown(_ holder: Claim) {
        holder.forEachStake { stake in
            guard let docket = dockets[stake.resource], !docket.waiting.isEmpty else { return }
            changeStandoff(at: stake.resource) { $0.calm.insert(holder.id) }
        }
    }

    /// A contested holder holds something else as well.
    mutating func join(_ holder: Claim, at resource: Resource) {
        changeStandoff(at: resource) { $0.contested.insert(holder.id, holder.kin) }
    }

    /// It is no longer there, or lets everybody pass.
    mutating func leaveStandoffs(_ holder: Claim) {
        if standoffs.isEmpty { return }
        holder.forEachStake { leaveStandoff(holder.id, at: $0.resource) }
    }

    mutating func leaveStandoff(_ holder: ClaimID, at resource: Resource) {
        if standoffs.isEmpty { return }
        changeStandoff(at: resource) { standoff in
            standoff.contested.remove(holder)
            standoff.calm.remove(holder)
        }
    }

    /// No claim waits there any more.
    mutating func disperse(at resource: Resource) {
        changeStandoff(at: resource) { $0.calm = [] }
    }

    private mutating func changeStandoff(at resource: Resource, _ body: (inout Standoff) -> Void) {
        guard let place = standoffs.index(forKey: resource) else {
            var standoff = Standoff()
            body(&standoff)
            if !standoff.isEmpty { standoffs[resource] = standoff }
            return
        }
        body(&standoffs.values[place])
        if standoffs.values[place].isEmpty { standoffs.remove(at: place) }
    }
}
