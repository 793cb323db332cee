// SPDX-License-Identifier: Apache-2.0
import NIOCore
import NIOPosix
import Synchronization

/// Threads for jobs that can block, such as looking up documents, or beginning and ending claims and presenters.
///
/// The jobs of one *lane* run in order, one at a time. Each connection has a lane. Users take turns: the queue runs one job of
/// a user, then one job of the next user. The lanes of a user occupy at most `width` threads at the same time. So:
/// - A user with many jobs delays other users only a little.
/// - If a file system hangs and `width` jobs of a user wait for it, all further jobs of that user wait. Jobs of other users
///   continue.
///
/// These jobs do not run on an event loop, because the end of a claim can lead to opens of files. Three kinds of work run on
/// the event loop nevertheless, because waking a thread would delay other programs:
/// - The answers of presenters.
/// - The end of a claim for which no other claim waits.
/// - The beginning of an access, if its document is known without a lookup.
///
/// Any thread may call the methods.
final class FairWorkQueue: Sendable {
    /// A lane: its jobs run one after the other.
    struct SerialLane: Sendable {
        fileprivate let id: UInt64
        /// The user to which the jobs of the lane belong; nil for the server's own jobs.
        fileprivate let user: UInt32?
        /// The most threads that run jobs of this user at the same time.
        fileprivate let width: Int
    }

    /// A job. Its argument is false if the work queue has ended.
    private typealias Job = @Sendable (Bool) -> Void

    /// For one user: the lanes that have waiting jobs, and the number of the user's turns.
    private struct UserJobs {
        /// The lanes that have waiting jobs, but no running job. The queue takes its next job from the first of these
        /// lanes.
        var ready: CircularBuffer<UInt64> = []
        /// The number of threads that run jobs of the user, plus the number of times that the user is in the pool's queue.
        var turns = 0
    }

    private struct State {
        /// The waiting jobs of each lane. A lane with a running job has an entry too.
        var lanes: [UInt64: CircularBuffer<Job>] = [:]
        var jobsByUser: [UInt32?: UserJobs] = [:]
        var lastLane: UInt64 = 0
        var waiting: [EventLoopPromise<Bool>] = []

        /// Adds a job. If this returns true, the caller must add the user to the pool's queue once more.
        mutating func add(_ job: @escaping Job, in lane: SerialLane) -> Bool {
            let isIdle = lanes[lane.id] == nil
            lanes[lane.id, default: []].append(job)
            guard isIdle else { return false }
            jobsByUser[lane.user, default: UserJobs()].ready.append(lane.id)
            guard let turns = jobsByUser[lane.user]?.turns, turns < lane.width else { return false }
            jobsByUser[lane.user]?.turns += 1
            return true
        }

        /// Takes the next job of a user. If the user has no job, returns nil and lowers the user's `turns` by one.
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
    /// The most threads that run jobs of a guest at the same time.
    private static let guestWidth = 1
    private static let serverWidth = 2

    private let pool = NIOThreadPool(numberOfThreads: threads)
    /// Threads for the server's own jobs, for which clients of all users wait.
    private let serverPool = NIOThreadPool(numberOfThreads: serverWidth)
    private let state = Mutex(State())

    init() {
        pool.start()
        serverPool.start()
    }

    func lane(of user: UInt32, isGuest: Bool) -> SerialLane {
        makeLane(of: user, width: isGuest ? Self.guestWidth : Self.width)
    }

    /// A new lane for a single job of the server. This job has no fixed order relative to other jobs.
    var serverLane: SerialLane { makeLane(of: nil, width: Self.serverWidth) }

    private func makeLane(of user: UInt32?, width: Int) -> SerialLane {
        state.withLock { state in
            state.lastLane += 1
            return SerialLane(id: state.lastLane, user: user, width: width)
        }
    }

    /// Runs `body` on a thread of the work queue. If the work queue has ended, `body` runs on another thread.
    func submit(in lane: SerialLane, _ body: @escaping @Sendable () -> Void) {
        enqueue(in: lane) { _ in body() }
    }

    /// Runs `body` on a thread of the work queue, and returns its result on `loop`. If the work queue has ended, `body` does
    /// not run and the result is a failure.
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

    /// Waits until all jobs are done, but at most `time`. Returns whether all jobs are done.
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

    /// Runs one job of a user on a thread, and then queues the user again behind all other users.
    private func takeTurn(of user: UInt32?) {
        let threads = user == nil ? serverPool : pool
        threads.submit { [self] state in
            let isActive = if case .active = state { true } else { false }
            while let (lane, job) = self.state.withLock({ $0.next(of: user) }) {
                job(isActive)
                self.state.withLock { $0.finish(lane, of: user) }
                // If the work queue has ended, the user is not put into the pool's queue again. The user's remaining jobs run
                // in this loop.
                if isActive { return takeTurn(of: user) }
            }
        }
    }
}
