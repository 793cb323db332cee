// SPDX-License-Identifier: Apache-2.0
import NIOCore
import NIOPosix
import Synchronization

/// One thread for whatever looks for documents or begins and ends something in the engine.
///
/// One, so that everything happens in the order in which a user's clients asked for it; users take turns, one job each, so that who
/// asks for very much keeps others waiting for one job at a time. Not an event loop, because what follows from an end may
/// be opens of files. Answers of presenters go to the engine from the event loop all the same: they cost others a
/// thread's wake-up otherwise, and what follows from them, the timers' thread does as well. For the same reason, an end
/// that nobody waits for is there as well, and the beginning of an access to what needs no looking for.
///
/// Any thread may call.
final class Desk: Sendable {
    /// Whose jobs are done in their order; nil for the server's own.
    typealias User = UInt32?
    /// Told whether the desk still works.
    private typealias Job = @Sendable (Bool) -> Void

    private struct State {
        var jobs: [User: CircularBuffer<Job>] = [:]
        /// Those who have jobs, whoever is next first.
        var turns: CircularBuffer<User> = []

        mutating func add(_ job: @escaping Job, of user: User) {
            if jobs[user] == nil { turns.append(user) }
            jobs[user, default: []].append(job)
        }

        mutating func next() -> Job? {
            guard let user = turns.popFirst(), let job = jobs[user]?.popFirst() else { return nil }
            if jobs[user]?.isEmpty == true { jobs[user] = nil } else { turns.append(user) }
            return job
        }
    }

    private let pool = NIOThreadPool(numberOfThreads: 1)
    private let state = Mutex(State())

    init() { pool.start() }

    /// Runs in any case: on another thread if the desk does nothing any more.
    func submit(of user: User, _ body: @escaping @Sendable () -> Void) {
        enqueue(of: user) { _ in body() }
    }

    /// Fails if the desk does nothing any more.
    func run<Value: Sendable>(
        of user: User, on loop: any EventLoop, _ body: @escaping @Sendable () throws -> Value
    ) -> EventLoopFuture<Value> {
        let promise = loop.makePromise(of: Value.self)
        enqueue(of: user) { isActive in
            guard isActive else { return promise.fail(CancellationError()) }
            promise.completeWith(Result { try body() })
        }
        return promise.futureResult
    }

    /// Waits for everything that was asked for until now. Not to be called on the desk.
    func finish(on loop: any EventLoop) throws {
        // There is a turn in the pool for each job, and this one comes behind all of them.
        try pool.runIfActive(eventLoop: loop) {}.wait()
    }

    func end() throws { try pool.syncShutdownGracefully() }

    private func enqueue(of user: User, _ job: @escaping Job) {
        state.withLock { $0.add(job, of: user) }
        pool.submit { [self] state in
            guard let job = self.state.withLock({ $0.next() }) else { return }
            if case .active = state { job(true) } else { job(false) }
        }
    }
}
