// SPDX-License-Identifier: Apache-2.0
import Synchronization

/// Opens of users of whom many wait already. They are begun one after another, so that the requests of others do not stand behind
/// them: the kernel hands out requests in the order in which they come, whoever makes them.
///
/// One that the file system below keeps for long keeps back no other: after a while another thread goes on with the rest.
final class OpenQueue: Sendable {
    typealias Body = @Sendable () -> Void

    /// What waits for a network or another process is begun apart.
    private struct OpenQueueKey: Hashable {
        let user: UInt32
        /// The mount, where that may wait; otherwise 0.
        let mount: UInt64
    }

    /// Opens that have not begun. Only the thread whose number is `thread` takes from them.
    private struct Opens {
        /// Of its line, which may end and begin anew.
        let serial: UInt64
        var bodies: [Body] = []
        /// Those before have begun; their places are dropped in bulk.
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
        /// One is there as long as a thread takes from it.
        var lines: [OpenQueueKey: Opens] = [:]
        private var serial: UInt64 = 0

        /// Returns the serial number of a line that begins with it.
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

    /// As many opens of a user wait before others of its are begun in turn.
    static let crowd = 64
    /// How many opens a thread begins before it takes what others have to do.
    private static let batch = 16

    private let state = Mutex(State())
    private let lines = Atomic<Int>(0)
    private let later: @Sendable (@escaping Body) -> Void

    /// `later` runs something after a while: so long an open may take until another thread goes on.
    init(later: @escaping @Sendable (@escaping Body) -> Void) { self.later = later }

    /// Whether an open of a user is begun in turn: many wait, or some that came before it have not begun.
    func isCrowded(_ user: UInt32, in parkedRequests: ParkedRequests) -> Bool {
        if lines.load(ordering: .relaxed) > 0,
            state.withLock({ $0.lines.keys.contains { $0.user == user } })
        {
            return true
        }
        return parkedRequests.openCount >= Self.crowd && parkedRequests.waiting(of: user) >= Self.crowd
    }

    /// `body` is run after what was added for the same user and mount before; `run` gives a thread that may block.
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

    /// Has another thread go on if none was begun since.
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
