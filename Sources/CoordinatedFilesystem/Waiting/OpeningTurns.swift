// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Opens of users of whom many wait already. They are begun one after another, so that the requests of others do not stand behind
/// them: the kernel hands out requests in the order in which they come, whoever makes them.
final class OpeningTurns: Sendable {
    /// What waits for a network or another process is begun apart.
    private struct Lane: Hashable {
        let user: UInt32
        /// The mount, where that may wait; otherwise 0.
        let mount: UInt64
    }

    private struct State {
        /// A lane is there as long as a thread takes from it.
        var lanes: [Lane: [@Sendable () -> Void]] = [:]

        mutating func take(_ most: Int, of lane: Lane) -> [@Sendable () -> Void] {
            guard let first = lanes[lane]?.prefix(most) else { return [] }
            lanes[lane]?.removeFirst(first.count)
            return Array(first)
        }
    }

    /// As many opens of a user wait before others of its are begun in turn.
    static let crowd = 64
    /// How many opens a thread begins before it takes what others have to do.
    private static let batch = 16

    private let state = Mutex(State())
    private let lanes = Atomic<Int>(0)

    /// Whether an open of a user is begun in turn: many wait, or some that came before it have not begun.
    func isCrowded(_ user: UInt32, in parking: Parking) -> Bool {
        if lanes.load(ordering: .relaxed) > 0,
            state.withLock({ $0.lanes.keys.contains { $0.user == user } })
        {
            return true
        }
        return parking.openCount >= Self.crowd && parking.waiting(of: user) >= Self.crowd
    }

    /// `body` is run after what was added for the same user and mount before; `run` gives a thread that may block.
    func add(
        of user: UInt32, on mount: UInt64, _ body: @escaping @Sendable () -> Void,
        by run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
    ) {
        let lane = Lane(user: user, mount: mount)
        let isFirst = state.withLock { state in
            let isFirst = state.lanes[lane] == nil
            state.lanes[lane, default: []].append(body)
            if isFirst { lanes.add(1, ordering: .relaxed) }
            return isFirst
        }
        if isFirst { run { [self] in takeTurn(in: lane, by: run) } }
    }

    private func takeTurn(
        in lane: Lane, by run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
    ) {
        for body in state.withLock({ $0.take(Self.batch, of: lane) }) { body() }
        let isOver = state.withLock { state in
            guard state.lanes[lane]?.isEmpty ?? true else { return false }
            state.lanes[lane] = nil
            lanes.subtract(1, ordering: .relaxed)
            return true
        }
        if !isOver { run { [self] in takeTurn(in: lane, by: run) } }
    }
}
