// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem

/// Which holders are looked at, and which ones next (D207).
///
/// A look goes through all that a process has open, and others wait for the same threads. So each user has so many looks under way in one
/// pool of threads, and so have all guests together. The others wait in their user's line, and the users take turns.
struct Looks: Sendable {
    enum Aim: Sendable {
        /// What the holder has done to its file.
        case deeds
        /// Whether its user may write the file. That is quick, and goes first: another user waits until it is known.
        case rights
    }

    struct Look: Sendable {
        let claim: ClaimID
        let aim: Aim
        /// Nil for the engine's workers.
        let threads: SpareWorkers?
    }

    /// Whose look it is: that of a guest, or of root or the mount's owner.
    struct Viewer: Sendable {
        let user: UInt32?
        let isGuest: Bool
    }

    private enum Stage: Sendable { case waiting(Aim), underWay(Aim) }

    /// Where a look is, and whose.
    private struct Entry: Sendable {
        var stage: Stage
        let viewer: Viewer
        let pool: ObjectIdentifier?
    }

    private var entries: [ClaimID: Entry] = [:]
    private var pools: [ObjectIdentifier?: Pool] = [:]

    /// How many there are, under way or not.
    var count: Int { entries.count }

    /// Whether a holder is to be looked at that is not in a line for that already.
    func lacks(_ claim: ClaimID, _ aim: Aim) -> Bool {
        switch entries[claim]?.stage {
        case nil: true
        case .waiting(.deeds): aim == .rights
        case .waiting(.rights), .underWay: false
        }
    }

    mutating func enter(_ claim: ClaimID, _ aim: Aim, of viewer: Viewer, on threads: SpareWorkers?) {
        guard lacks(claim, aim) else { return }
        cancel(claim)
        let pool = threads.map(ObjectIdentifier.init)
        entries[claim] = Entry(stage: .waiting(aim), viewer: viewer, pool: pool)
        pools[pool, default: Pool(threads: threads)].enter(claim, aim, of: viewer)
    }

    /// Looks that may begin now, of all pools.
    mutating func takeDue() -> [Look] {
        var due: [Look] = []
        // Of its own, so that nothing is copied when a pool changes.
        for pool in Array(pools.keys) {
            while let (claim, aim) = pools[pool]?.next(where: { [entries] in
                Self.isWaiting($0, for: $1, in: entries)
            }) {
                entries[claim]?.stage = .underWay(aim)
                due.append(Look(claim: claim, aim: aim, threads: pools[pool]?.threads))
            }
            if pools[pool]?.isUnused ?? false { pools[pool] = nil }
        }
        return due
    }

    /// A look is over.
    mutating func end(_ claim: ClaimID) {
        guard let entry = entries[claim], case .underWay(let aim) = entry.stage else { return }
        entries[claim] = nil
        pools[entry.pool]?.ended(aim, of: entry.viewer)
    }

    /// A claim is over: nothing needs to be looked at. What is under way goes on.
    mutating func cancel(_ claim: ClaimID) {
        if entries.isEmpty { return }
        guard let entry = entries[claim], case .waiting(let aim) = entry.stage else { return }
        entries[claim] = nil
        pools[entry.pool]?.left(aim, of: entry.viewer) { [entries] in
            Self.isWaiting($0, for: aim, in: entries)
        }
    }

    private static func isWaiting(_ claim: ClaimID, for aim: Aim, in entries: [ClaimID: Entry]) -> Bool {
        if case .waiting(aim) = entries[claim]?.stage { true } else { false }
    }
}

/// The lines of one pool of threads.
private struct Pool: Sendable {
    let threads: SpareWorkers?
    /// The first ones before the later ones. A pool has eight threads: whatever guests have there, one is left to the others.
    private var lines = [
        Lines(most: (each: 8, all: 8)), Lines(most: (each: 8, all: 16)),
        Lines(most: (each: 1, all: 2)), Lines(most: (each: 3, all: 5)),
    ]

    init(threads: SpareWorkers?) { self.threads = threads }

    var isUnused: Bool { lines.allSatisfy(\.isUnused) }

    private static func place(_ aim: Looks.Aim, _ viewer: Looks.Viewer) -> Int {
        (viewer.isGuest ? 2 : 0) + (aim == .rights ? 0 : 1)
    }

    mutating func enter(_ claim: ClaimID, _ aim: Looks.Aim, of viewer: Looks.Viewer) {
        lines[Self.place(aim, viewer)].enter(claim, of: viewer.user)
    }

    mutating func next(where isWaiting: (ClaimID, Looks.Aim) -> Bool) -> (ClaimID, Looks.Aim)? {
        for place in lines.indices {
            let aim: Looks.Aim = place % 2 == 0 ? .rights : .deeds
            if let claim = lines[place].next(where: { isWaiting($0, aim) }) { return (claim, aim) }
        }
        return nil
    }

    mutating func ended(_ aim: Looks.Aim, of viewer: Looks.Viewer) {
        lines[Self.place(aim, viewer)].ended(of: viewer.user)
    }

    mutating func left(_ aim: Looks.Aim, of viewer: Looks.Viewer, where isWaiting: (ClaimID) -> Bool) {
        lines[Self.place(aim, viewer)].left(viewer.user, where: isWaiting)
    }
}

/// Lines of users that take turns.
private struct Lines: Sendable {
    private struct Line: Sendable {
        var claims = Row<ClaimID>()
        /// Places of claims that need no look any more.
        var stale = 0
        var underWay = 0
        /// Whether its user is in the order.
        var isInOrder = false
    }

    private let most: (each: Int, all: Int)
    private var lines: [UInt32?: Line] = [:]
    /// Users with somebody in their line, the next one first.
    private var order = Row<UInt32?>()
    private var underWay = 0

    init(most: (each: Int, all: Int)) { self.most = most }

    var isUnused: Bool { lines.isEmpty }

    mutating func enter(_ claim: ClaimID, of user: UInt32?) {
        lines[user, default: Line()].claims.append(claim)
        enterOrder(user)
    }

    private mutating func enterOrder(_ user: UInt32?) {
        guard lines[user]?.isInOrder == false else { return }
        lines[user]?.isInOrder = true
        order.append(user)
    }

    /// The next one that may begin, of the first user that may have one. Users that have enough under way are few.
    mutating func next(where isWaiting: (ClaimID) -> Bool) -> ClaimID? {
        var left = order.count
        while left > 0, underWay < most.all, let user = order.popFirst() {
            left -= 1
            lines[user]?.isInOrder = false
            let claim = take(of: user, where: isWaiting)
            if lines[user]?.claims.isEmpty ?? true { forgetIfUnused(user) } else { enterOrder(user) }
            if let claim { return claim }
        }
        return nil
    }

    private mutating func take(of user: UInt32?, where isWaiting: (ClaimID) -> Bool) -> ClaimID? {
        guard let underWayOfUser = lines[user]?.underWay, underWayOfUser < most.each else { return nil }
        while let claim = lines[user]?.claims.popFirst() {
            guard isWaiting(claim) else {
                lines[user]?.stale -= 1
                continue
            }
            lines[user]?.underWay += 1
            underWay += 1
            return claim
        }
        return nil
    }

    mutating func ended(of user: UInt32?) {
        underWay -= 1
        lines[user]?.underWay -= 1
        forgetIfUnused(user)
    }

    /// One of a line needs no look any more. Places like that are dropped when they are the half.
    mutating func left(_ user: UInt32?, where isWaiting: (ClaimID) -> Bool) {
        guard let line = lines[user] else { return }
        lines[user]?.stale += 1
        guard 2 * (line.stale + 1) > line.claims.count else { return }
        lines[user]?.claims.keep(isWaiting)
        lines[user]?.stale = 0
    }

    /// One that is in the order is forgotten when its turn comes.
    private mutating func forgetIfUnused(_ user: UInt32?) {
        guard let line = lines[user], line.claims.isEmpty, line.underWay == 0, !line.isInOrder else { return }
        lines[user] = nil
    }
}
