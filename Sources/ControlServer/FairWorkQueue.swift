// SPDX-License-Identifier: Apache-2.0
import NIOCore
import NIOPosix
import Synchronization

/// Threads for work that looks up documents, or begins and ends claims and presenters.
///
/// The jobs of one *lane* run in order, one at a time; each connection has a lane. Users take turns, one job each. The lanes of
/// a user occupy at most `width` threads at once. So:
/// - A user with many jobs delays other users only a little.
/// - A dead file system blocks only programs that use it, and other programs of a user that has `width` jobs there.
///
/// These jobs do not run on an event loop, because the end of a claim may lead to opens of files. Three things run on the event
/// loop all the same, since a thread's wake-up would delay other programs:
/// - Answers of presenters. What follows from them is what the timers' thread does as well.
/// - The end of a claim that no other claim waits for.
/// - The beginning of an access, if its document needs no lookup.
///
/// Any thread may call.
final class FairWorkQueue: Sendable {
    /// Jobs that run one after the other for a user.
    struct SerialLane: Sendable {
        fileprivate let id: UInt64
        /// The user; nil for the server's own jobs.
        fileprivate let user: UInt32?
        /// How many threads the lanes of this user occupy at most.
        fileprivate let width: Int
    }

    /// The argument is false if the work queue has ended.
    private typealias Job = @Sendable (Bool) -> Void

    /// The jobs of one user.
    private struct UserJobs {
        /// Lanes that have jobs and are not at work, the next one first.
        var ready: CircularBuffer<UInt64> = []
        /// How often the user is in the pool's queue or at work.
        var turns = 0
    }

    private struct State {
        /// Lanes that have jobs or are at work.
        var lanes: [UInt64: CircularBuffer<Job>] = [:]
        var jobsByUser: [UInt32?: UserJobs] = [:]
        var lastLane: UInt64 = 0
        var waiting: [EventLoopPromise<Bool>] = []

        /// Adds a job, and returns whether the user needs one more turn.
        mutating func add(_ job: @escaping Job, in lane: SerialLane) -> Bool {
            let isIdle = lanes[lane.id] == nil
            lanes[lane.id, default: []].append(job)
            guard isIdle else { return false }
            jobsByUser[lane.user, default: UserJobs()].ready.append(lane.id)
            guard let turns = jobsByUser[lane.user]?.turns, turns < lane.width else { return false }
            jobsByUser[lane.user]?.turns += 1
            return true
        }

        /// Takes the next job of a user; without one, the user has one turn less.
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
    /// The width of a user that is a guest.
    private static let guestWidth = 1
    private static let serverWidth = 2

    private let pool = NIOThreadPool(numberOfThreads: threads)
    /// Threads for the server's own jobs, for which all clients wait.
    private let serverPool = NIOThreadPool(numberOfThreads: serverWidth)
    private let state = Mutex(State())

    init() {
        pool.start()
        serverPool.start()
    }

    func lane(of user: UInt32, isGuest: Bool) -> SerialLane {
        makeLane(of: user, width: isGuest ? Self.guestWidth : Self.width)
    }

    /// A lane of the server for one job, in no order with other jobs.
    var serverLane: SerialLane { makeLane(of: nil, width: Self.serverWidth) }

    private func makeLane(of user: UInt32?, width: Int) -> SerialLane {
        state.withLock { state in
            state.lastLane += 1
            return SerialLane(id: state.lastLane, user: user, width: width)
        }
    }

    /// Runs `body` in any case; if the work queue has ended, not on one of its threads.
    func submit(in lane: SerialLane, _ body: @escaping @Sendable () -> Void) {
        enqueue(in: lane) { _ in body() }
    }

    /// Fails if the work queue has ended.
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

    /// Waits at most `time` until all jobs are done, and returns whether they are.
    ///
    /// Must not be called on a thread of the work queue or on the loop.
    func finish(on loop: any EventLoop, within time: TimeAmount) throws -> Bool {
        let idle = loop.makePromise(of: Bool.self)
        state.withLock { state in
            if state.lanes.isEmpty { idle.succeed(true) } else { state.waiting.append(idle) }
        }
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

    /// Does one job of a user, and queues the user behind all others.
    private func takeTurn(of user: UInt32?) {
        let threads = user == nil ? serverPool : pool
        threads.submit { [self] state in
            let isActive = if case .active = state { true } else { false }
            while let (lane, job) = self.state.withLock({ $0.next(of: user) }) {
                job(isActive)
                self.state.withLock { $0.finish(lane, of: user) }
                // Jobs that remain when the work queue has ended run here, without queueing again.
                if isActive { return takeTurn(of: user) }
            }
        }
    }
}
