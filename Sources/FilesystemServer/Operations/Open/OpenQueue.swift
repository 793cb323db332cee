// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Queues the opens of users with many waiting opens, and begins them one after another. The kernel hands requests out in the
/// order of their arrival, so other users' requests do not queue behind them.
///
/// An open that is slow in the file system below blocks no other: another thread continues with the queue after a while.
final class OpenQueue: Sendable {
    typealias Body = @Sendable () -> Void

    /// Opens that may wait for a network or another process have queues of their own.
    private struct OpenQueueKey: Hashable {
        let user: UInt32
        /// The mount, where opens may wait for it; otherwise 0.
        let mount: UInt64
    }

    /// Opens that have not begun. Only the thread with the number `thread` takes from them.
    private struct Opens {
        /// Identifies the queue, which may end and begin anew.
        let serial: UInt64
        var bodies: [Body] = []
        /// Entries before this index have begun; their places are dropped in bulk.
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
        /// A queue exists as long as a thread takes from it.
        var lines: [OpenQueueKey: Opens] = [:]
        private var serial: UInt64 = 0

        /// Returns the serial number of a queue that begins with this open.
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

    /// If this many opens of a user wait, its further opens are queued.
    static let crowd = 64
    /// How many opens a thread begins before it yields to other work.
    private static let batch = 16

    private let state = Mutex(State())
    private let lines = Atomic<Int>(0)
    private let later: @Sendable (@escaping Body) -> Void

    /// `later` runs a closure after the time that an open may take until another thread continues.
    init(later: @escaping @Sendable (@escaping Body) -> Void) { self.later = later }

    /// Whether an open of a user is queued: many wait, or earlier opens have not begun.
    func isCrowded(_ user: UInt32, in parkedRequests: ParkedRequests) -> Bool {
        if lines.load(ordering: .relaxed) > 0,
            state.withLock({ $0.lines.keys.contains { $0.user == user } })
        {
            return true
        }
        return parkedRequests.openCount >= Self.crowd && parkedRequests.waiting(of: user) >= Self.crowd
    }

    /// Runs `body` after earlier opens of the same user and mount; `run` provides a thread that may block.
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

    /// Lets another thread continue if no open was begun since.
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
