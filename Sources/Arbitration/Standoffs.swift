// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Those who hold something for which others wait.
struct Standoff: Sendable {
    /// Those with a contest.
    var contested = ClaimQueue()
    /// Those that have none, though they may come to have one: they keep out nobody of those who wait now.
    var calm: Set<ClaimID> = []
    /// If so many have one that others cannot: since when the first of them counts (Y11).
    var fullSince: Instant?

    var isEmpty: Bool { contested.isEmpty && calm.isEmpty && fullSince == nil }
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
                noteRoom(at: stake.resource)
            } else {
                join(holder, at: stake.resource)
            }
        }
        renewInThrongs(holder.id)
    }

    /// Notes a holder that keeps out nobody of those who wait.
    mutating func calmDown(_ holder: Claim) {
        holder.forEachStake { stake in
            guard let docket = dockets[stake.resource], !docket.waiting.isEmpty,
                throngs[stake.resource] == nil
            else { return }
            changeStandoff(at: stake.resource) { $0.calm.insert(holder.id) }
        }
    }

    /// A contested holder holds something else as well.
    mutating func join(_ holder: Claim, at resource: Resource) {
        changeStandoff(at: resource) { standoff in
            standoff.contested.insert(holder.id, holder.kin)
            standoff.calm.remove(holder.id)
        }
        guard let standoff = standoffs[resource], standoff.contested.count >= crowd.holders,
            standoff.fullSince == nil
        else { return }
        let since = standoff.contested.compactMap { contests[$0]?.since }.min()
        changeStandoff(at: resource) { $0.fullSince = since }
    }

    /// Y11: one has a contest no more, so another one may.
    private mutating func noteRoom(at resource: Resource) {
        if throngs[resource] != nil || standoffs[resource]?.fullSince != nil { vacancies.insert(resource) }
    }

    /// Y11: whether there is room for one more contest.
    func hasRoom(at resource: Resource) -> Bool {
        (standoffs[resource]?.contested.count ?? 0) < crowd.holders
    }

    /// Y11: of all that came to be contested without a break none has more time than the first.
    mutating func endFullness(at resource: Resource) {
        guard hasRoom(at: resource), standoffs[resource]?.fullSince != nil else { return }
        changeStandoff(at: resource) { $0.fullSince = nil }
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
        noteRoom(at: resource)
    }

    /// No claim waits there any more.
    mutating func disperse(at resource: Resource) {
        changeStandoff(at: resource) { $0.calm = [] }
        throngs[resource]?.rouse { _ in true }
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
