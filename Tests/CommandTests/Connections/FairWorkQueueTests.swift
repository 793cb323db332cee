// SPDX-License-Identifier: Apache-2.0
import Dispatch
import NIOCore
import NIOPosix
import Synchronization
import Testing

import func TestSupport.eventually

@testable import ControlServer

/// Checks in which order the server handles the requests of clients, and which requests wait for other requests.
@Suite("Fair work queue")
final class FairWorkQueueTests: Sendable {
    private let workQueue = FairWorkQueue()
    private let loop = MultiThreadedEventLoopGroup.singleton.next()
    private let done = Mutex<[String]>([])

    @Test(
        "jobs of different users run in turn, and the jobs of one connection run in the order of their arrival"
    )
    func usersTakeTurnsAndTheJobsOfAConnectionRunInOrder() throws {
        let kept = (1...8).map { keep(workQueue.lane(of: $0, isGuest: true)) }
        let (one, two) = (workQueue.lane(of: 21, isGuest: false), workQueue.lane(of: 22, isGuest: false))
        for name in ["1a", "1b", "1c"] { note(name, in: one) }
        for name in ["2a", "2b"] { note(name, in: two) }
        note("own", in: workQueue.serverLane)
        try wait(for: 1)
        kept[0].signal()
        try wait(for: 6)
        #expect(done.withLock { $0 } == ["own", "1a", "2a", "1b", "2b", "1c"])
        try end(kept)
    }

    @Test(
        "a user's blocked connections block no other user, and this user's other connections only if many are blocked"
    )
    func aBlockedConnectionBlocksNoOtherUser() throws {
        let lanes = (1...4).map { _ in workQueue.lane(of: 1, isGuest: false) }
        var kept = lanes[..<2].map { keep($0) }
        note("behind", in: lanes[0])
        note("beside", in: lanes[2])
        try wait(for: 1)
        kept.append(keep(lanes[2]))
        note("too many", in: lanes[3])
        kept.append(keep(workQueue.lane(of: 2, isGuest: true)))
        note("guest's second", in: workQueue.lane(of: 2, isGuest: true))
        note("other guest", in: workQueue.lane(of: 3, isGuest: true))
        note("own", in: workQueue.serverLane)
        try wait(for: 3)
        #expect(done.withLock { $0.first } == "beside")
        #expect(done.withLock { Set($0) } == ["beside", "other guest", "own"])
        #expect(try !workQueue.finish(on: loop, within: .milliseconds(1)))
        try end(kept)
        #expect(done.withLock { Set($0) }.isSuperset(of: ["behind", "too many", "guest's second"]))
    }

    @Test("after the end of the queue, jobs without a result still run, and jobs with a result fail")
    func afterTheQueuesEndJobsWithoutAResultRunAndJobsWithAResultFail() throws {
        let lane = workQueue.lane(of: 1, isGuest: false)
        #expect(try workQueue.run(in: lane, on: loop) { 7 }.wait() == 7)
        try workQueue.end()
        for name in ["a", "b"] { note(name, in: lane) }
        try wait(for: 2)
        #expect(throws: CancellationError.self) { try workQueue.run(in: lane, on: loop) { 7 }.wait() }
    }

    private func note(_ name: String, in lane: FairWorkQueue.SerialLane) {
        workQueue.submit(in: lane) { self.done.withLock { $0.append(name) } }
    }

    /// Blocks a lane, which is the queue of one connection's jobs, and the lane's thread until the returned semaphore is
    /// signalled.
    private func keep(_ lane: FairWorkQueue.SerialLane) -> DispatchSemaphore {
        let (begun, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        workQueue.submit(in: lane) {
            begun.signal()
            goOn.wait()
        }
        #expect(begun.wait(timeout: .now() + 10) == .success, "waited 10 s for a thread")
        return goOn
    }

    private func wait(for count: Int) throws {
        try eventually(within: .seconds(10), "\(count) jobs: \(done.withLock { $0 })") {
            done.withLock { $0.count } >= count
        }
    }

    private func end(_ kept: [DispatchSemaphore]) throws {
        for semaphore in kept { semaphore.signal() }
        #expect(try workQueue.finish(on: loop, within: .seconds(10)))
        try workQueue.end()
    }
}
