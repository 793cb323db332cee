// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Q3: Finds the identified claims of the processes related to a party, without a visit to all claims.
///
/// The index also finds claims of the same process with another purpose, although these claims are not exempt from the
/// party's claims (X5).
struct ProcessFamilyIndex: Sendable {
    /// One thread of a process. The number is 0 if the thread is not known, or if the process is the partner of the
    /// party. A partner is a second process that counts as the party.
    private struct ThreadOfProcess: Hashable, Sendable {
        let process: ProcessID
        let number: Int32
    }

    private var own: [ProcessID: Set<ClaimID>] = [:]
    private var threads: [ThreadOfProcess: Set<ClaimID>] = [:]
    private var below: [ProcessID: Set<ClaimID>] = [:]
    private var purposes: [Purpose: Set<ClaimID>] = [:]

    var count: Int { own.count + below.count + purposes.count + threads.count }
    /// D5: The number of processes that made the claims, partners included.
    var processes: Int { own.count }

    mutating func insert(_ claim: ClaimID, of party: Party) {
        if let purpose = party.purpose { purposes[purpose, default: []].insert(claim) }
        insertProcess(claim, of: party, thread: party.thread)
        if let partner = party.partner { insertProcess(claim, of: partner, thread: 0) }
    }

    private mutating func insertProcess(_ claim: ClaimID, of party: Party, thread: Int32) {
        guard let process = party.process else { return }
        own[process, default: []].insert(claim)
        threads[ThreadOfProcess(process: process, number: thread), default: []].insert(claim)
        for ancestor in party.ancestors { below[ancestor, default: []].insert(claim) }
    }

    mutating func remove(_ claim: ClaimID, of party: Party) {
        if let purpose = party.purpose { Self.remove(claim, under: purpose, from: &purposes) }
        removeProcess(claim, of: party, thread: party.thread)
        if let partner = party.partner { removeProcess(claim, of: partner, thread: 0) }
    }

    private mutating func removeProcess(_ claim: ClaimID, of party: Party, thread: Int32) {
        guard let process = party.process else { return }
        Self.remove(claim, under: process, from: &own)
        Self.remove(claim, under: ThreadOfProcess(process: process, number: thread), from: &threads)
        for ancestor in party.ancestors { Self.remove(claim, under: ancestor, from: &below) }
    }

    /// Whether this index has a claim that may be exempt from a claim of the party.
    func hasRelative(of party: Party) -> Bool {
        if let purpose = party.purpose, purposes[purpose] != nil { return true }
        return party.anyIdentity { one in
            guard let process = one.process else { return false }
            return own[process] != nil || below[process] != nil || one.ancestors.contains { own[$0] != nil }
        }
    }

    /// Calls the body with each claim of this index that may be exempt from a claim of the party, in any order. Can
    /// call the body twice with a claim.
    func forEachRelative(of party: Party, _ body: (ClaimID) -> Void) {
        if let purpose = party.purpose { purposes[purpose]?.forEach(body) }
        forEachRelativeOfProcess(of: party, body)
        if let partner = party.partner { forEachRelativeOfProcess(of: partner, body) }
    }

    private func forEachRelativeOfProcess(of party: Party, _ body: (ClaimID) -> Void) {
        guard let process = party.process else { return }
        own[process]?.forEach(body)
        forEachInOtherProcess(of: process, party.ancestors, body)
    }

    private func forEachInOtherProcess(
        of process: ProcessID, _ ancestors: [ProcessID], _ body: (ClaimID) -> Void
    ) {
        below[process]?.forEach(body)
        for ancestor in ancestors { own[ancestor]?.forEach(body) }
    }

    /// Calls the body with each claim that may be exempt from a claim of the party. Claims of other threads of the
    /// party's process are left out.
    ///
    /// D1: A claim of one thread does not depend on the waits of another thread. So the claims of other threads need
    /// not be visited.
    func forEachCounterpart(of party: Party, _ body: (ClaimID) -> Void) {
        guard let process = party.process, party.thread != 0 else { return forEachRelative(of: party, body) }
        if let purpose = party.purpose { purposes[purpose]?.forEach(body) }
        for number in [party.thread, 0] {
            threads[ThreadOfProcess(process: process, number: number)]?.forEach(body)
        }
        forEachInOtherProcess(of: process, party.ancestors, body)
        if let partner = party.partner { forEachRelativeOfProcess(of: partner, body) }
    }

    /// Calls the body with each claim that may be exempt from a claim of the party. Most claims of the party's own
    /// process are left out.
    ///
    /// Of the claims of the party's own process, only those with the party's purpose and those of the party's partner
    /// are visited. The body can be called twice with a claim.
    func forEachOther(than party: Party, _ body: (ClaimID) -> Void) {
        if let purpose = party.purpose { purposes[purpose]?.forEach(body) }
        if let process = party.process { forEachInOtherProcess(of: process, party.ancestors, body) }
        if let partner = party.partner { forEachRelativeOfProcess(of: partner, body) }
    }

    func countOfRelatives(of party: Party) -> Int {
        countOfOthers(than: party) + (party.process.map(countOfClaims) ?? 0)
    }

    func countOfCounterparts(of party: Party) -> Int {
        guard let process = party.process, party.thread != 0 else { return countOfRelatives(of: party) }
        return [party.thread, 0].reduce(countOfOthers(than: party)) {
            $0 + (threads[ThreadOfProcess(process: process, number: $1)]?.count ?? 0)
        }
    }

    /// An upper limit of the number of calls of ``forEachOther(than:_:)``.
    func countOfOthers(than party: Party) -> Int {
        var count = party.purpose.flatMap { purposes[$0]?.count } ?? 0
        if let process = party.process { count += countInOtherProcess(of: process, party.ancestors) }
        if let partner = party.partner, let process = partner.process {
            count += countOfClaims(of: process) + countInOtherProcess(of: process, partner.ancestors)
        }
        return count
    }

    private func countInOtherProcess(of process: ProcessID, _ ancestors: [ProcessID]) -> Int {
        ancestors.reduce(below[process]?.count ?? 0) { $0 + (own[$1]?.count ?? 0) }
    }

    func countOfClaims(of process: ProcessID) -> Int { own[process]?.count ?? 0 }
    func forEachClaim(of process: ProcessID, _ body: (ClaimID) -> Void) { own[process]?.forEach(body) }
    func forEachClaim(of process: ProcessID, thread: Int32, _ body: (ClaimID) -> Void) {
        threads[ThreadOfProcess(process: process, number: thread)]?.forEach(body)
    }

    func hasCounterpart(of party: Party) -> Bool {
        guard let process = party.process, party.thread != 0 else { return hasRelative(of: party) }
        if let purpose = party.purpose, purposes[purpose] != nil { return true }
        if [party.thread, 0].contains(where: { threads[ThreadOfProcess(process: process, number: $0)] != nil }
        ) {
            return true
        }
        if below[process] != nil || party.ancestors.contains(where: { own[$0] != nil }) { return true }
        return party.partner.map { hasRelative(of: $0) } ?? false
    }

    /// Whether this index has another claim than `claim` that may be exempt from a claim of `party`.
    func hasOthers(than claim: ClaimID, of party: Party) -> Bool {
        if let purpose = party.purpose, purposes[purpose]?.count ?? 0 > 1 { return true }
        return party.anyIdentity { one in
            guard let process = one.process else { return false }
            return own[process]?.contains { $0 != claim } ?? false || below[process] != nil
                || one.ancestors.contains { own[$0] != nil }
        }
    }

    /// Calls the body with each claim of the party's processes and of their descendants. Can call the body twice with a
    /// claim.
    func forEachClaim(ofOrBelow party: Party, _ body: (ClaimID) -> Void) {
        for process in [party.process, party.partner?.process] {
            guard let process else { continue }
            own[process]?.forEach(body)
            below[process]?.forEach(body)
        }
    }

    private static func remove<Key: Hashable>(
        _ claim: ClaimID, under key: Key, from index: inout [Key: Set<ClaimID>]
    ) {
        guard let found = index.index(forKey: key) else { return }
        index.values[found].remove(claim)
        if index.values[found].isEmpty { index.remove(at: found) }
    }
}

/// Gives the same number to all parties with equal process, ancestors, purpose and partner. Such parties are exempt
/// from each other.
struct PartyNumbers: Sendable {
    private struct Key: Hashable, Sendable {
        let process: ProcessID
        let ancestors: [ProcessID]
        let purpose: Purpose?
        let partner: Party?

        init?(_ party: Party) {
            guard let process = party.process else { return nil }
            partner = party.partner
            self.process = process
            ancestors = party.ancestors
            purpose = party.purpose
        }
    }

    private var numbers: [Key: (partyNumber: PartyNumber, claims: Int)] = [:]
    private var last: PartyNumber = 0

    var count: Int { numbers.count }

    mutating func join(_ party: Party) -> PartyNumber {
        guard let key = Key(party) else { return 0 }
        if let known = numbers[key] {
            numbers[key] = (known.partyNumber, known.claims + 1)
            return known.partyNumber
        }
        // After four billion parties the numbers begin again at 1. The parties with the first numbers have ended long
        // before.
        last = last == .max ? 1 : last + 1
        numbers[key] = (last, 1)
        return last
    }

    mutating func leave(_ party: Party) {
        guard let key = Key(party), let known = numbers[key] else { return }
        numbers[key] = known.claims > 1 ? (known.partyNumber, known.claims - 1) : nil
    }
}
