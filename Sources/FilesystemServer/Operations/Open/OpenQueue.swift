// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Queues for the opens of users that already have many waiting opens. The opens of a queue begin one after the other.
///
/// The kernel hands out requests in the order of their arrival. A serving thread only adds such an open to its queue,
/// and then answers other users' requests. If an open in the queue takes long, another thread begins the opens after
/// it.
final class OpenQueue: Sendable {
    typealias Body = @Sendable () -> Void

    /// The user and mount of a queue. Opens that may have to wait for a network or another process are in separate
    /// queues.
    private struct OpenQueueKey: Hashable {
        let user: UInt32
        /// The mount of the file, if an open may have to wait for that mount; otherwise 0.
        let mount: UInt64
    }

    /// The opens of a queue that have not begun yet. Only the thread with the number `thread` may begin them.
    private struct Opens {
        /// The number of this queue. If a queue with the same key is made later, it has another number.
        let serial: UInt64
        var bodies: [Body] = []
        /// The opens before this index have already begun. To save time, they are removed from the list only when there
        /// are many.
        var first = 0
        var begun = 0
        var thread = 0

        mutating func next() -> Body? {
            guard first < bodies.count else { return nil }
            defer { first += 1 }
            if first >= 1024 {
                bodies.removeFirst(first)
                first = 0
            }
            begun += 1
            return bodies[first]
        }
    }

    private struct State {
        /// The queues. A queue is removed when a thread finds it empty.
        var lines: [OpenQueueKey: Opens] = [:]
        private var serial: UInt64 = 0

        /// Adds an open to a queue. If this makes a new queue, returns the number of the queue, otherwise nil.
        mutating func add(_ body: @escaping Body, to line: OpenQueueKey) -> UInt64? {
            let isFirst = lines[line] == nil
            if isFirst { serial += 1 }
            lines[line, default: Opens(serial: serial)].bodies.append(body)
            return isFirst ? serial : nil
        }

        mutating func next(of line: OpenQueueKey, for thread: Int) -> Body? {
            guard lines[line]?.thread == thread else { return nil }
            if let body = lines[line]?.next() { return body }
            lines[line] = nil
            return nil
        }
    }

    /// If a user has this many waiting opens, further opens of the user are queued.
    static let crowd = 64
    /// How many opens of a queue a thread begins in succession before other work can use the thread.
    private static let batch = 16

    private let state = Mutex(State())
    private let lines = Atomic<Int>(0)
    private let later: @Sendable (@escaping Body) -> Void

    /// Makes an object without queues. `later` runs a closure after a short time, in which the next open should have
    /// begun.
    init(later: @escaping @Sendable (@escaping Body) -> Void) { self.later = later }

    /// Returns whether a new open of a user must be queued: the user has many waiting opens, or has a queue already.
    func isCrowded(_ user: UInt32, in parkedRequests: ParkedRequests) -> Bool {
        if lines.load(ordering: .relaxed) > 0,
            state.withLock({ $0.lines.keys.contains { $0.user == user } })
        {
            return true
        }
        return parkedRequests.openCount >= Self.crowd && parkedRequests.waiting(of: user) >= Self.crowd
    }

    /// Runs `body` when the previous opens of the same user on the same mount have begun. `run` runs a closure on a
    /// thread that may block.
    func add(
        of user: UInt32, on mount: UInt64, _ body: @escaping Body,
        by run: @escaping @Sendable (@escaping Body) -> Void
    ) {
        let line = OpenQueueKey(user: user, mount: mount)
        let begun: UInt64? = state.withLock { state in
            defer { noteCount(of: state) }
            return state.add(body, to: line)
        }
        guard let serial = begun else { return }
        run { [self] in drain(as: 0, in: line, by: run) }
        watch(line, serial, since: 0, by: run)
    }

    private func drain(
        as thread: Int, in line: OpenQueueKey, by run: @escaping @Sendable (@escaping Body) -> Void
    ) {
        for _ in 0..<Self.batch {
            let body = state.withLock { state in
                let body = state.next(of: line, for: thread)
                noteCount(of: state)
                return body
            }
            guard let body else { return }
            body()
        }
        run { [self] in drain(as: thread, in: line, by: run) }
    }

    /// After a short time, checks whether another open of the queue has begun. If not, a second thread takes over the
    /// queue.
    private func watch(
        _ line: OpenQueueKey, _ serial: UInt64, since begun: Int,
        by run: @escaping @Sendable (@escaping Body) -> Void
    ) {
        later { [self] in
            let (now, thread): (Int?, Int?) = state.withLock { state in
                guard var opens = state.lines[line], opens.serial == serial else { return (nil, nil) }
                guard opens.begun == begun else { return (opens.begun, nil) }
                opens.thread += 1
                state.lines[line] = opens
                return (begun, opens.thread)
            }
            if let thread { run { [self] in drain(as: thread, in: line, by: run) } }
            if let now { watch(line, serial, since: now, by: run) }
        }
    }

    private func noteCount(of state: borrowing State) { lines.store(state.lines.count, ordering: .relaxed) }
}
