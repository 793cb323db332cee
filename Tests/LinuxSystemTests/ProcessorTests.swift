// SPDX-License-Identifier: Apache-2.0
import CTestSupport
import LinuxSystem
import Synchronization
import Testing

@Suite("Changing the processor of a thread")
struct ProcessorTests {
    private final class Seen: Sendable {
        let changed = Atomic<Bool>(false)
        let before = Atomic<Int>(0)
        let after = Atomic<Int>(0)
    }

    /// Starts a thread that changes its processor, and returns what the thread saw. With `onlyOne`, the thread may run on one
    /// processor only.
    private func change(onlyOne: Bool) throws -> Seen {
        let seen = Seen()
        try JoinableThread {
            if onlyOne, ctest_bind_to_one_processor() != 0 { return }
            seen.before.store(OwnProcess.processors, ordering: .relaxed)
            seen.changed.store(OwnProcess.changeProcessor(), ordering: .relaxed)
            seen.after.store(OwnProcess.processors, ordering: .relaxed)
        }.join()
        return seen
    }

    @Test(
        "A thread changes to another processor if one exists, and may later run on as many processors as before"
    )
    func aThreadChangesToAnotherProcessor() throws {
        let seen = try change(onlyOne: false)
        let before = seen.before.load(ordering: .relaxed)
        let (changed, after) = (seen.changed.load(ordering: .relaxed), seen.after.load(ordering: .relaxed))
        #expect(changed == (before > 1))
        #expect(after == before)
    }

    @Test("A thread that may use only one processor stays on that processor")
    func aThreadBoundToOneProcessorStays() throws {
        let seen = try change(onlyOne: true)
        let (before, after) = (seen.before.load(ordering: .relaxed), seen.after.load(ordering: .relaxed))
        let changed = seen.changed.load(ordering: .relaxed)
        #expect(before == 1)
        #expect(!changed)
        #expect(after == 1)
    }
}
