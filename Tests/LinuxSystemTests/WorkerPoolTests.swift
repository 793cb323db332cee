// SPDX-License-Identifier: Apache-2.0
import Dispatch
import LinuxSystem
import Testing

@Suite struct WorkerPoolTests {
    private final class Payload: Sendable {}

    @Test("A finished job is released at once, even if further jobs wait")
    func aFinishedJobIsReleased() throws {
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
