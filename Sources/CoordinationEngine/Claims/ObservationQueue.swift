// SPDX-License-Identifier: Apache-2.0
import Coordination
import LinuxSystem

/// D207: The order in which holders are observed.
///
/// An observation reads all open files of a process, and other work needs the same threads. So only a limited number of
/// observations run at the same time in each pool of threads: for each user, and for all guests together. Further
/// observations wait in the queue of their user, and the users take turns.
struct ObservationQueue: Sendable {
    enum ObservationKind: Sendable {
        /// Find out how the holder has used its file.
        case fileState
        /// Check whether the holder's user is allowed to write the file. This check is quick, and runs before other
        /// observations, because another user waits for its result.
        case rights
    }

    struct ObservationRequest: Sendable {
        let claim: ClaimID
        let kind: ObservationKind
        /// The pool of threads; nil for the engine's workers.
        let threads: LazyWorkerPool?
    }

    /// The user of an observed holder, and whether the user is a guest.
    struct HolderUser: Sendable {
        let user: UInt32?
        let isGuest: Bool
    }

    private enum ObservationStage: Sendable { case waiting(ObservationKind), underWay(ObservationKind) }

    /// An observation that waits in a queue or runs, and its user.
    private struct QueuedObservation: Sendable {
        var stage: ObservationStage
        let holderUser: HolderUser
        let pool: ObjectIdentifier?
    }

    private var entries: [ClaimID: QueuedObservation] = [:]
    private var pools: [ObjectIdentifier?: ObservationPool] = [:]

    /// The number of observations, waiting and running.
    var count: Int { entries.count }

    /// Whether this kind of observation of a holder is not yet in a queue.
    func needs(_ claim: ClaimID, _ kind: ObservationKind) -> Bool {
        switch entries[claim]?.stage {
        case nil: true
        case .waiting(.fileState): kind == .rights
        case .waiting(.rights), .underWay: false
        }
    }

    mutating func enter(
        _ claim: ClaimID, _ kind: ObservationKind, of holderUser: HolderUser, on threads: LazyWorkerPool?
    ) {
        guard needs(claim, kind) else { return }
        cancel(claim)
        let pool = threads.map(ObjectIdentifier.init)
        entries[claim] = QueuedObservation(stage: .waiting(kind), holderUser: holderUser, pool: pool)
        pools[pool, default: ObservationPool(threads: threads)].enter(claim, kind, of: holderUser)
    }

    /// Returns the observations that may begin now, out of the queues of all pools.
    mutating func takeDue() -> [ObservationRequest] {
        var due: [ObservationRequest] = []
        // The loop uses a copy of the keys, so that a change of a pool does not copy the dictionary.
        for pool in Array(pools.keys) {
            while let (claim, kind) = pools[pool]?.next(where: { [entries] in
                Self.isWaiting($0, for: $1, in: entries)
            }) {
                entries[claim]?.stage = .underWay(kind)
                due.append(ObservationRequest(claim: claim, kind: kind, threads: pools[pool]?.threads))
            }
            if pools[pool]?.isUnused ?? false { pools[pool] = nil }
        }
        return due
    }

    /// Notes that an observation has finished.
    mutating func end(_ claim: ClaimID) {
        guard let entry = entries[claim], case .underWay(let kind) = entry.stage else { return }
        entries[claim] = nil
        pools[entry.pool]?.ended(kind, of: entry.holderUser)
    }

    /// Removes the observation of a claim that has ended. An observation that runs is not stopped.
    mutating func cancel(_ claim: ClaimID) {
        if entries.isEmpty { return }
        guard let entry = entries[claim], case .waiting(let kind) = entry.stage else { return }
        entries[claim] = nil
        pools[entry.pool]?.left(kind, of: entry.holderUser) { [entries] in
            Self.isWaiting($0, for: kind, in: entries)
        }
    }

    private static func isWaiting(
        _ claim: ClaimID, for kind: ObservationKind, in entries: [ClaimID: QueuedObservation]
    ) -> Bool {
        if case .waiting(kind) = entries[claim]?.stage { true } else { false }
    }
}

/// The queues of one pool of threads.
private struct ObservationPool: Sendable {
    let threads: LazyWorkerPool?
    /// The queues, the highest priority first. A pool has eight threads, of which guests use seven at most.
    private var lines = [
        UserQueues(most: (each: 8, all: 8)), UserQueues(most: (each: 8, all: 16)),
        UserQueues(most: (each: 1, all: 2)), UserQueues(most: (each: 3, all: 5)),
    ]

    init(threads: LazyWorkerPool?) { self.threads = threads }

    var isUnused: Bool { lines.allSatisfy(\.isUnused) }

    private static func place(
        _ kind: ObservationQueue.ObservationKind, _ holderUser: ObservationQueue.HolderUser
    ) -> Int {
        (holderUser.isGuest ? 2 : 0) + (kind == .rights ? 0 : 1)
    }

    mutating func enter(
        _ claim: ClaimID, _ kind: ObservationQueue.ObservationKind, of holderUser: ObservationQueue.HolderUser
    ) {
        lines[Self.place(kind, holderUser)].enter(claim, of: holderUser.user)
    }

    mutating func next(where isWaiting: (ClaimID, ObservationQueue.ObservationKind) -> Bool) -> (
        ClaimID, ObservationQueue.ObservationKind
    )? {
        for place in lines.indices {
            let kind: ObservationQueue.ObservationKind = place % 2 == 0 ? .rights : .fileState
            if let claim = lines[place].next(where: { isWaiting($0, kind) }) { return (claim, kind) }
        }
        return nil
    }

    mutating func ended(_ kind: ObservationQueue.ObservationKind, of holderUser: ObservationQueue.HolderUser)
    {
        lines[Self.place(kind, holderUser)].ended(of: holderUser.user)
    }

    mutating func left(
        _ kind: ObservationQueue.ObservationKind, of holderUser: ObservationQueue.HolderUser,
        where isWaiting: (ClaimID) -> Bool
    ) {
        lines[Self.place(kind, holderUser)].left(holderUser.user, where: isWaiting)
    }
}

/// The queues of several users that take turns.
private struct UserQueues: Sendable {
    private struct UserQueue: Sendable {
        var claims = FIFOQueue<ClaimID>()
        /// The number of claims in the queue that no longer need an observation.
        var stale = 0
        var underWay = 0
        /// Whether the user is in `order`.
        var isInOrder = false
    }

    private let most: (each: Int, all: Int)
    private var lines: [UInt32?: UserQueue] = [:]
    /// The users with claims in their queues. The user at the front comes next.
    private var order = FIFOQueue<UInt32?>()
    private var underWay = 0

    init(most: (each: Int, all: Int)) { self.most = most }

    var isUnused: Bool { lines.isEmpty }

    mutating func enter(_ claim: ClaimID, of user: UInt32?) {
        lines[user, default: UserQueue()].claims.append(claim)
        enterOrder(user)
    }

    private mutating func enterOrder(_ user: UInt32?) {
        guard lines[user]?.isInOrder == false else { return }
        lines[user]?.isInOrder = true
        order.append(user)
    }

    /// Returns the next claim to observe. Nil if no claim is left, or the limits allow no further observation. The
    /// users take turns.
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

    /// Notes that a claim in a queue no longer needs an observation. When half of the claims in a queue are such
    /// claims, they are removed from the queue.
    mutating func left(_ user: UInt32?, where isWaiting: (ClaimID) -> Bool) {
        guard let line = lines[user] else { return }
        lines[user]?.stale += 1
        guard 2 * (line.stale + 1) > line.claims.count else { return }
        lines[user]?.claims.keep(isWaiting)
        lines[user]?.stale = 0
    }

    /// Removes the queue of a user if the queue is empty and no observation of the user runs. If the user is still in
    /// `order`, the queue is removed at the user's next turn.
    private mutating func forgetIfUnused(_ user: UInt32?) {
        guard let line = lines[user], line.claims.isEmpty, line.underWay == 0, !line.isInOrder else { return }
        lines[user] = nil
    }
}
