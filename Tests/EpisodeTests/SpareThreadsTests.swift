// SPDX-License-Identifier: Apache-2.0
import CoordinatedFilesystem
import Testing

@Suite("Threads for file systems that may keep them")
struct SpareThreadsTests {
    @Test("Mounts have threads of their own, whatever their numbers, until there are more than so many")
    func slots() {
        var slots = SpareThreads.Slots()
        let mounts = (0..<UInt64(SpareThreads.mounts)).map { 120 + 16 * $0 }
        let given = mounts.map { slots.slot(of: $0) }
        #expect(Set(given).count == SpareThreads.mounts)
        #expect(mounts.map { slots.slot(of: $0) } == given)
        #expect(given.contains(slots.slot(of: 7)))
    }
}
