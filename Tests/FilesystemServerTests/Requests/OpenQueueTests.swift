// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization
import Testing

@testable import FilesystemServer

/// If many opens of a user wait, the daemon begins further opens of this user one after another.
@Suite("The queue of opens of users with many waiting opens") struct OpenQueueTests {
    /// A stand-in for threads. A job does not run until the test calls `takeOne`.
    private final class Threads: Sendable {
        private let jobs = Mutex<[@Sendable () -> Void]>([])

        var count: Int { jobs.withLock { $0.count } }

        func run(_ job: @escaping @Sendable () -> Void) { jobs.withLock { $0.append(job) } }

        func takeOne() {
            let job = jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            job?()
        }
    }

    private final class Begun: Sendable {
        let names = Mutex<[String]>([])
    }

    private let turns: OpenQueue
    private let threads = Threads()
    /// A stand-in for the queue's timers. A timer does not fire until the test calls `takeOne`.
    private let timers = Threads()
    private let begun = Begun()

    init() { turns = OpenQueue { [timers] in timers.run($0) } }

    private func add(_ name: String, of user: UInt32, on mount: UInt64 = 0) {
        turns.add(of: user, on: mount) { [begun] in
            begun.names.withLock { $0.append(name) }
        } by: { [threads] in
            threads.run($0)
        }
    }

    @Test("One thread at a time starts a user's opens, in the order of their arrival")
    func onlyOneThreadAtATimeStartsAUsersOpensInOrder() {
        for number in 0..<100 { add("\(number)", of: 1) }
        #expect(threads.count == 1)
        while threads.count > 0 {
            #expect(threads.count == 1)
            threads.takeOne()
        }
        #expect(begun.names.withLock { $0 } == (0..<100).map { "\($0)" })
    }

    @Test("If one user has many waiting opens, a second user's open starts before all of them have started")
    func anotherUsersOpenIsNotStarved() {
        for number in 0..<100 { add("\(number)", of: 1) }
        add("other", of: 2)
        threads.takeOne()
        threads.takeOne()
        let names = begun.names.withLock { $0 }
        #expect(names.last == "other")
        #expect(names.count < 50)
    }

    @Test("A slow open does not delay the opens after it")
    func aSlowOpenDelaysNoLaterOpen() {
        for number in 0..<40 {
            turns.add(of: 1, on: 0) { [begun, timers, threads] in
                begun.names.withLock { $0.append("\(number)") }
                guard number == 3 else { return }
                // All other opens run within open 3, so open 3 ends last.
                timers.takeOne()
                timers.takeOne()
                while threads.count > 0 { threads.takeOne() }
            } by: { [threads] in
                threads.run($0)
            }
        }
        threads.takeOne()
        #expect(threads.count == 0)
        #expect(begun.names.withLock { $0 } == (0..<40).map { "\($0)" })
        timers.takeOne()
        #expect(timers.count == 0, "a line that is over is not watched")
    }

    @Test("A mount that hangs does not delay the start of open calls on another mount")
    func aMountThatHangsDelaysNoOpenCallsOnAnotherMount() {
        add("distant", of: 1, on: 7)
        add("here", of: 1)
        #expect(threads.count == 2)
    }

    @Test(
        "From a user's 64th waiting open, new opens of the user are queued until all queued opens have started"
    )
    func aUsersNewOpensAreQueuedFrom64WaitingOpens() throws {
        let parkedRequests = ParkedRequests(timers: try Timers(), counters: LiveCounters())
        func enter(_ count: UInt, of user: UInt32) {
            for token in 0..<count {
                parkedRequests.enter(
                    UInt(user) * 1000 + token, ParkedRequests.ParkedRequest(thread: 0, user: user) { _ in })
            }
        }
        enter(40, of: 2)
        enter(63, of: 1)
        #expect(!turns.isCrowded(1, in: parkedRequests))
        enter(64, of: 1)
        #expect(turns.isCrowded(1, in: parkedRequests))
        #expect(!turns.isCrowded(2, in: parkedRequests))
        add("open", of: 1)
        for token in 0..<UInt(64) { parkedRequests.leave(1000 + token) }
        #expect(turns.isCrowded(1, in: parkedRequests))
        threads.takeOne()
        #expect(!turns.isCrowded(1, in: parkedRequests))
        for token in 0..<UInt(40) { parkedRequests.leave(2000 + token) }
        #expect(parkedRequests.openCount == 0)
    }
}
