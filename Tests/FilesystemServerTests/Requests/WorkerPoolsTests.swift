// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import Testing

@Suite("Threads for file systems that may block")
struct WorkerPoolsTests {
    @Test("Mounts have threads of their own, whatever their numbers, up to a limit")
    func mountsHaveOwnThreadSlots() {
        var slots = WorkerPools.Slots()
        let mounts = (0..<UInt64(WorkerPools.mounts)).map { 120 + 16 * $0 }
        let given = mounts.map { slots.slot(of: $0) }
        #expect(Set(given).count == WorkerPools.mounts)
        #expect(mounts.map { slots.slot(of: $0) } == given)
        #expect(given.contains(slots.slot(of: 7)))
    }
}
