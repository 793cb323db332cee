// SPDX-License-Identifier: Apache-2.0
import Coordination

/// Every waiting claim, with the claim that it watches.
///
/// Only claims that meet other claims or presenters have entries here.
///
/// Invariants (I2, I4):
///
/// - Each waiting claim has one record, and no held claim has one.
/// - `watchers` lists each claim at the claim that it watches. It may also list claims that watch another one by now.
/// - `toIdentify`, `nameChanges` and `byLink` name waiting claims only.
/// - `lastWaits` has the claims that the present event has refused.
struct WaitQueue: Sendable {
    private var records: [ClaimID: WaitRecord] = [:]
    private var watchers: [ClaimID: [ClaimID]] = [:]
    /// Waiting claims that must be identified only because of presenters.
    private(set) var toIdentify: Set<ClaimID> = []
    /// Waiting changes of names, which few claims overtake (Q3).
    private(set) var nameChanges: Set<ClaimID> = []
    /// Waiting claims by the symbolic links that they resolve (S7).
    private var byLink: [ItemID: Set<ClaimID>] = [:]
    private var lastWaits: [ClaimID: LastWait] = [:]

    /// Whether no claim waits.
    var isEmpty: Bool { records.isEmpty }
    /// The number of waiting claims.
    var count: Int { records.count }
    /// The number of watched claims.
    var countOfWatched: Int { watchers.count }
    /// The number of entries that are not counted above.
    var countOfIndexes: Int { toIdentify.count + lastWaits.count }
    /// The waiting claims, in no order.
    var ids: Dictionary<ClaimID, WaitRecord>.Keys { records.keys }

    subscript(claim: ClaimID) -> WaitRecord? { records[claim] }

    func contains(_ claim: ClaimID) -> Bool { records[claim] != nil }

    /// Adds a claim that begins to wait.
    ///
    /// A claim that watches no other claim waits for presenters to be asked.
    mutating func add(_ claim: Claim, _ record: WaitRecord) {
        records[claim.id] = record
        if claim.nature == .nameChange { nameChanges.insert(claim.id) }
        index(claim) { $0.insert(claim.id) }
        if let watched = record.watched {
            watchers[watched, default: []].append(claim.id)
        } else {
            toIdentify.insert(claim.id)
        }
    }

    /// Removes a claim that ends or is granted; returns whether it waited.
    mutating func remove(_ claim: Claim) -> Bool {
        guard records.removeValue(forKey: claim.id) != nil else { return false }
        toIdentify.remove(claim.id)
        nameChanges.remove(claim.id)
        index(claim) { $0.remove(claim.id) }
        return true
    }

    /// P4: Extends the wait of a claim, at most to `span` after its beginning; returns the new end if it is later.
    mutating func extend(_ claim: ClaimID, to deadline: Instant, atMost span: TimeSpan) -> Instant? {
        guard let entry = records.index(forKey: claim) else { return nil }
        let extended = min(deadline, records.values[entry].began + span)
        guard extended > records.values[entry].deadline else { return nil }
        records.values[entry].deadline = extended
        return extended
    }

    /// Calls the body with the entry of each link that a claim resolves.
    private mutating func index(_ claim: Claim, _ body: (inout Set<ClaimID>) -> Void) {
        claim.forEachPart { part in
            guard let link = part.via else { return }
            body(&byLink[link, default: []])
            if byLink[link]?.isEmpty ?? false { byLink[link] = nil }
        }
    }
}

/// Which claim watches which.
extension WaitQueue {
    /// Whether a claim is listed among the watchers of another claim.
    func isListed(_ claim: ClaimID, watching watched: ClaimID) -> Bool {
        watchers[watched]?.contains(claim) ?? false
    }

    /// Lets a waiting claim watch one of its blockers.
    mutating func watch(_ blocker: ClaimID, by claim: ClaimID) {
        guard let entry = records.index(forKey: claim), records.values[entry].watched != blocker else {
            return
        }
        records.values[entry].watched = blocker
        watchers[blocker, default: []].append(claim)
    }

    /// Notes that a waiting claim has no known blocker.
    mutating func stopWatching(by claim: ClaimID) { records[claim]?.watched = nil }

    /// Returns the claims that watch a claim, and lets them watch no claim.
    mutating func releaseWatchers(of watched: ClaimID) -> [ClaimID] {
        guard let listed = watchers.removeValue(forKey: watched) else { return [] }
        return listed.filter { watcher in
            guard let entry = records.index(forKey: watcher), records.values[entry].watched == watched else {
                return false
            }
            records.values[entry].watched = nil
            return true
        }
    }
}

/// Claims that must be identified, that follow links, and that were refused.
extension WaitQueue {
    mutating func requestIdentity(of claim: ClaimID) { toIdentify.insert(claim) }
    mutating func noteIdentity(of claim: ClaimID) { toIdentify.remove(claim) }

    /// The waiting claims that resolve a symbolic link, in the order of their numbers (S7).
    func claims(resolving link: ItemID) -> [ClaimID] { (byLink[link] ?? []).sorted() }

    /// Enters the links of a claim again, because its parts have changed.
    mutating func relink(_ former: Claim, to claim: Claim) {
        index(former) { $0.remove(former.id) }
        index(claim) { $0.insert(claim.id) }
    }

    /// Notes what a claim waited for that is refused.
    mutating func noteRefusal(of claim: ClaimID, _ lastWait: LastWait) { lastWaits[claim] = lastWait }

    /// What a claim waited for that the last event refused.
    func lastWait(of claim: ClaimID) -> LastWait? { lastWaits[claim] }

    /// Forgets the refusals of the last event.
    @inline(__always)
    mutating func forgetRefusals() { if !lastWaits.isEmpty { lastWaits = [:] } }
}

/// The state of a claim while it waits.
struct WaitRecord: Sendable {
    let began: Instant
    /// The end of the wait; later with progress of presenters asked for it (P4).
    var deadline: Instant
    /// One claim that blocks it; nil during the search for one, and while presenters are asked.
    var watched: ClaimID?
}
