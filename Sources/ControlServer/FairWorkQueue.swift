// SPDX-License-Identifier: Apache-2.0
import NIOCore
import NIOPosix
import Synchronization

/// Threads for whatever looks for documents or begins and ends something in the engine.
///
/// What is asked for in one *lane*, which a connection has, is done in that order, one thing after the other. Users take
/// turns, one job each, and have so many threads at once as their lanes are wide and no more: so who asks for very much keeps
/// others waiting for little, and what a dead file system keeps, keeps nobody who uses another one, but for the other programs of
/// one who has as many as that. Not an event loop, because what follows from an end may be opens of files. Answers of
/// presenters go to the engine from the event loop all the same: they cost others a thread's wake-up otherwise, and what
/// follows from them, the timers' thread does as well. For the same reason, an end that nobody waits for is there as well, and
/// the beginning of an access to what needs no looking for.
///
/// Any thread may call.
final class FairWorkQueue: Sendable {
    /// One thing after the other, for somebody.
    struct SerialLane: Sendable {
        fileprivate let id: UInt64
        /// Nil for the server's own.
        fileprivate let user: UInt32?
        /// How many threads the lanes of that user have at once.
        fileprivate let width: Int
    }

    /// Told whether the desk still works.
    private typealias Job = @Sendable (Bool) -> Void

    /// What one user has to be done.
    private struct UserJobs {
        /// Lanes with jobs that are not at work, whoever is next first.
        var ready: CircularBuffer<UInt64> = []
        /// How often the user is in the pool's queue or at work.
        var turns = 0
    }

    private struct State {
        /// Those that have jobs or are at work.
        var lanes: [UInt64: CircularBuffer<Job>] = [:]
        var jobsByUser: [UInt32?: UserJobs] = [:]
        var lastLane: UInt64 = 0
        var waiting: [EventLoopPromise<Bool>] = []

        /// Returns whether the user is to have one more turn.
        mutating func add(_ job: @escaping Job, in lane: SerialLane) -> Bool {
            let isIdle = lanes[lane.id] == nil
            lanes[lane.id, default: []].append(job)
            guard isIdle else { return false }
            jobsByUser[lane.user, default: UserJobs()].ready.append(lane.id)
            guard let turns = jobsByUser[lane.user]?.turns, turns < lane.width else { return false }
            jobsByUser[lane.user]?.turns += 1
            return true
        }

        /// The next job of a user, whose turns are one less if there is none.
        mutating func next(of user: UInt32?) -> (lane: UInt64, job: Job)? {
            if let lane = jobsByUser[user]?.ready.popFirst(), let job = lanes[lane]?.popFirst() {
                return (lane, job)
            }
            jobsByUser[user]?.turns -= 1
            if jobsByUser[user]?.turns == 0 { jobsByUser[user] = nil }
            return nil
        }

        mutating func finish(_ lane: UInt64, of user: UInt32?) {
            guard lanes[lane]?.isEmpty == true else {
                jobsByUser[user]?.ready.append(lane)
                return
            }
            lanes[lane] = nil
            guard lanes.isEmpty else { return }
            for promise in waiting { promise.succeed(true) }
            waiting = []
        }
    }

    private static let threads = 8
    private static let width = 3
    /// Of a user who is a guest.
    private static let guestWidth = 1
    private static let serverWidth = 2

    private let pool = NIOThreadPool(numberOfThreads: threads)
    /// For the server's own jobs, for which all wait.
    private let serverPool = NIOThreadPool(numberOfThreads: serverWidth)
    private let state = Mutex(State())

    init() {
        pool.start()
        serverPool.start()
    }

    func lane(of user: UInt32, isGuest: Bool) -> SerialLane {
        makeLane(of: user, width: isGuest ? Self.guestWidth : Self.width)
    }

    /// A lane of the server's for one job: others come before it or after it, as it happens.
    var serverLane: SerialLane { makeLane(of: nil, width: Self.serverWidth) }

    private func makeLane(of user: UInt32?, width: Int) -> SerialLane {
        state.withLock { state in
            state.lastLane += 1
            return SerialLane(id: state.lastLane, user: user, width: width)
        }
    }

    /// Runs in any case: on another thread if the desk does nothing any more.
    func submit(in lane: SerialLane, _ body: @escaping @Sendable () -> Void) {
        enqueue(in: lane) { _ in body() }
    }

    /// Fails if the desk does nothing any more.
    func run<Value: Sendable>(
        in lane: SerialLane, on loop: any EventLoop, _ body: @escaping @Sendable () throws -> Value
    ) -> EventLoopFuture<Value> {
        let promise = loop.makePromise(of: Value.self)
        enqueue(in: lane) { isActive in
            guard isActive else { return promise.fail(CancellationError()) }
            promise.completeWith(Result { try body() })
        }
        return promise.futureResult
    }

    /// Waits until there is nothing to do, so long at most. Not to be called on the desk or the loop. Returns whether all is
    /// done.
    func finish(on loop: any EventLoop, within time: TimeAmount) throws -> Bool {
        let idle = loop.makePromise(of: Bool.self)
        state.withLock { state in
            if state.lanes.isEmpty { idle.succeed(true) } else { state.waiting.append(idle) }
        }
        // Whichever comes first.
        let timeout = loop.scheduleTask(in: time) { idle.succeed(false) }
        defer { timeout.cancel() }
        return try idle.futureResult.wait()
    }

    func end() throws {
        try pool.syncShutdownGracefully()
        try serverPool.syncShutdownGracefully()
    }

    private func enqueue(in lane: SerialLane, _ job: @escaping Job) {
        if state.withLock({ $0.add(job, in: lane) }) { takeTurn(of: lane.user) }
    }

    /// Does one job, and then comes behind all others.
    private func takeTurn(of user: UInt32?) {
        let threads = user == nil ? serverPool : pool
        threads.submit { [self] state in
            let isActive = if case .active = state { true } else { false }
            while let (lane, job) = self.state.withLock({ $0.next(of: user) }) {
                job(isActive)
                self.state.withLock { $0.finish(lane, of: user) }
                // What is still there when the desk has ended is done here and now.
                if isActive { return takeTurn(of: user) }
            }
        }
    }
}
