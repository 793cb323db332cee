// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import Testing

@Suite("Worker threads for mounted file systems that may hang")
struct WorkerPoolsTests {
    @Test("Each of a limited number of mounts gets worker threads of its own")
    func eachMountGetsItsOwnWorkerThreads() {
        var slots = WorkerPools.Slots()
        let mounts = (0..<UInt64(WorkerPools.mounts)).map { 120 + 16 * $0 }
        let given = mounts.map { slots.slot(of: $0) }
        #expect(Set(given).count == WorkerPools.mounts)
        #expect(mounts.map { slots.slot(of: $0) } == given)
        #expect(given.contains(slots.slot(of: 7)))
    }
}
