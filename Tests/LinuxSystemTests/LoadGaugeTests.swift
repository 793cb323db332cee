// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization
import TestSupport
import Testing

@Suite("Detection of threads that wait for a processor")
struct LoadGaugeTests {
    private final class Work: Sendable {
        let isOver = Atomic<Bool>(false)
    }

    @Test("With one more runnable thread than processors, the processors count as oversubscribed")
    func moreThreadsThanProcessorsCountAsOversubscription() throws {
        let gauge = try #require(LoadGauge())
        let work = Work()
        defer { work.isOver.store(true, ordering: .relaxed) }
        for _ in 0...OwnProcess.processors {
            try JoinableThread { while !work.isOver.load(ordering: .relaxed) {} }.detach()
        }
        let took = try eventually(within: .seconds(10), "too many threads") { gauge.isOversubscribed }
        print("too many threads were seen after \(took)")
    }
}
