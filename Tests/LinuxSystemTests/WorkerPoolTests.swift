// SPDX-License-Identifier: Apache-2.0
import Dispatch
import LinuxSystem
import Testing

@Suite struct WorkerPoolTests {
    private final class Payload: Sendable {}

    @Test("A job is released when it has ended, whatever waits behind it")
    func finishedJobs() throws {
        let pool = try WorkerPool(threads: 1)
        let (begin, started, end) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        weak var payload: Payload?
        pool.run { begin.wait() }
        do {
            let made = Payload()
            payload = made
            pool.run { withExtendedLifetime(made) {} }
        }
        pool.run {
            started.signal()
            end.wait()
        }
        pool.run {}
        #expect(payload != nil)
        begin.signal()
        #expect(started.wait(timeout: .now() + 10) == .success)
        #expect(payload == nil)
        end.signal()
        #expect(pool.finish(until: MonotonicClock.nanoseconds + 10_000_000_000))
    }
}
