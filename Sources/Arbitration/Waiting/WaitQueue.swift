// SPDX-License-Identifier: Apache-2.0
import Coordination

/// All waiting claims. Each waiting claim watches one claim that blocks it, and is reviewed when the watched claim
/// changes.
///
/// Invariants (I2, I4):
///
/// - Each waiting claim has one record, and no held claim has one.
/// - `watchers` lists each claim under the claim that it watches. It can also contain old entries of claims that now
///   watch another claim.
/// - `toIdentify`, `nameChanges` and `byLink` have waiting claims only.
/// - `lastWaits` has the claims that the present event has refused.
struct WaitQueue: Sendable {
    private var records: [ClaimID: WaitRecord] = [:]
    private var watchers: [ClaimID: [ClaimID]] = [:]
    /// Waiting claims that must be identified only because presenters must be asked.
    private(set) var toIdentify: Set<ClaimID> = []
    /// Q3: The waiting name changes. Few claims are granted before an earlier name change.
    private(set) var nameChanges: Set<ClaimID> = []
    /// S7: For each symbolic link, the waiting claims that followed the link to their item.
    private var byLink: [ItemID: Set<ClaimID>] = [:]
    private var lastWaits: [ClaimID: LastWait] = [:]

    /// Whether no claim waits.
    var isEmpty: Bool { records.isEmpty }
    /// The number of waiting claims.
    var count: Int { records.count }
    /// The number of claims that are watched by other claims.
    var countOfWatched: Int { watchers.count }
    /// The number of entries of `toIdentify` and `lastWaits`.
    var countOfIndexes: Int { toIdentify.count + lastWaits.count }
    /// The waiting claims, in no order.
    var ids: Dictionary<ClaimID, WaitRecord>.Keys { records.keys }

    subscript(claim: ClaimID) -> WaitRecord? { records[claim] }

    func contains(_ claim: ClaimID) -> Bool { records[claim] != nil }

    /// Adds a claim that begins to wait.
    ///
    /// If its record has no watched claim, the claim waits because presenters must be asked.
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

    /// Removes a claim that ends or is granted. Returns whether the claim waited.
    mutating func remove(_ claim: Claim) -> Bool {
        guard records.removeValue(forKey: claim.id) != nil else { return false }
        toIdentify.remove(claim.id)
        nameChanges.remove(claim.id)
        index(claim) { $0.remove(claim.id) }
        return true
    }

    /// P4: Moves the deadline of a claim to a later moment, at most to `span` after the start of the claim's wait.
    /// Returns the new deadline; nil if the deadline stays.
    mutating func extend(_ claim: ClaimID, to deadline: Instant, atMost span: TimeSpan) -> Instant? {
        guard let entry = records.index(forKey: claim) else { return nil }
        let extended = min(deadline, records.values[entry].began + span)
        guard extended > records.values[entry].deadline else { return nil }
        records.values[entry].deadline = extended
        return extended
    }

    /// Calls the body with the sets in `byLink` for the symbolic links that the claim followed.
    private mutating func index(_ claim: Claim, _ body: (inout Set<ClaimID>) -> Void) {
        claim.forEachPart { part in
            guard let link = part.via else { return }
            body(&byLink[link, default: []])
            if byLink[link]?.isEmpty ?? false { byLink[link] = nil }
        }
    }
}

/// Which claim watches which other claim.
extension WaitQueue {
    /// Whether a claim is listed among the watchers of another claim.
    func isListed(_ claim: ClaimID, watching watched: ClaimID) -> Bool {
        watchers[watched]?.contains(claim) ?? false
    }

    /// Makes a waiting claim watch one of the claims that block it.
    mutating func watch(_ blocker: ClaimID, by claim: ClaimID) {
        guard let entry = records.index(forKey: claim), records.values[entry].watched != blocker else {
            return
        }
        records.values[entry].watched = blocker
        watchers[blocker, default: []].append(claim)
    }

    /// Notes that no claim blocks a waiting claim.
    mutating func stopWatching(by claim: ClaimID) { records[claim]?.watched = nil }

    /// Returns the claims that watch a claim. These claims watch no claim after the call.
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

/// Claims that must be identified, claims that followed symbolic links, and refused claims.
extension WaitQueue {
    mutating func requestIdentity(of claim: ClaimID) { toIdentify.insert(claim) }
    mutating func noteIdentity(of claim: ClaimID) { toIdentify.remove(claim) }

    /// S7: The waiting claims that followed a symbolic link to their item, in the order of their numbers.
    func claims(resolving link: ItemID) -> [ClaimID] { (byLink[link] ?? []).sorted() }

    /// Updates the index of symbolic links, because the parts of a claim have changed.
    mutating func relink(_ former: Claim, to claim: Claim) {
        index(former) { $0.remove(former.id) }
        index(claim) { $0.insert(claim.id) }
    }

    /// Stores the blocker or the questions for which a refused claim waited.
    mutating func noteRefusal(of claim: ClaimID, _ lastWait: LastWait) { lastWaits[claim] = lastWait }

    /// The blocker or the questions for which a claim waited; nil if the last event has not refused the claim.
    func lastWait(of claim: ClaimID) -> LastWait? { lastWaits[claim] }

    /// Forgets the refusals of the last event.
    @inline(__always)
    mutating func forgetRefusals() { if !lastWaits.isEmpty { lastWaits = [:] } }
}

/// The state of a claim while it waits.
struct WaitRecord: Sendable {
    let began: Instant
    /// P4: The moment at which the wait ends. A presenter that was asked for the claim and reports progress makes this
    /// moment later.
    var deadline: Instant
    /// One claim that blocks this claim; nil during the search for a blocker, and while presenters are asked.
    var watched: ClaimID?
}
