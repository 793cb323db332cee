// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import FuseBridge
import Testing

@Suite("Names and contents in the kernel's cache")
struct KernelCacheTrackerTests {
    private let node = NodeID(7)

    @Test("The cache is reused while the file looks as it did when it was opened for reading")
    func reuseWhileUnchanged() {
        var cache = KernelCacheTracker<Int>()
        #expect(cache.open(node, looking: 1) == .refill)
        cache.begin(node)
        #expect(cache.open(node, looking: 1) == .reuse)
        cache.close(node)
        cache.close(node)
        #expect(cache.open(node, looking: 1) == .reuse)
        #expect(cache.open(node, looking: 1) == .reuse)
        cache.close(node)
        cache.close(node)
        #expect(cache.open(node, looking: 2) == .refill)
        #expect(cache.open(NodeID(8), looking: 2) == .refill)
    }

    @Test("While a reader of the old state remains, nothing is cached, and afterwards all begins anew")
    func noReuseWhileOldReadersRemain() {
        var cache = KernelCacheTracker<Int>()
        #expect(cache.open(node, looking: 1) == .refill)
        #expect(cache.open(node, looking: 2) == .uncached)
        // The first reader may still put the old names into the kernel's cache.
        #expect(cache.open(node, looking: 2) == .uncached)
        #expect(cache.open(node, looking: 1) == .uncached)
        cache.close(node)
        #expect(cache.open(node, looking: 2) == .refill)
        cache.begin(node)
        #expect(cache.open(node, looking: 2) == .reuse)
    }

    @Test("Until the first read, the kernel may have the earlier contents")
    func untrackedUntilFirstRead() {
        var cache = KernelCacheTracker<Int>()
        #expect(cache.open(node, looking: 1) == .refill)
        #expect(cache.open(node, looking: 1) == .uncached)
        cache.close(node)
        #expect(cache.open(node, looking: 1) == .reuse)
    }

    @Test("An invalidated entry is not reused")
    func invalidatedEntryRefills() {
        var cache = KernelCacheTracker<Int>()
        #expect(cache.open(node, looking: 1) == .refill)
        cache.invalidate(node)
        cache.close(node)
        #expect(cache.open(node, looking: 1) == .refill)
        cache.invalidate(NodeID(8))
        cache.close(NodeID(8))
    }

    @Test("An abandoned entry is not reused")
    func abandonedEntryRefills() {
        var cache = KernelCacheTracker<Int>()
        #expect(cache.open(node, looking: 1) == .refill)
        #expect(cache.open(node, looking: 1) == .uncached)
        cache.giveUp(node)
        #expect(cache.open(node, looking: 1) == .refill)
    }

    @Test("Of many directories and files, those that are being read are remembered, and some others")
    func capacityKeepsReaders() {
        var cache = KernelCacheTracker<Int>(capacity: 100)
        #expect(cache.open(node, looking: 1) == .refill)
        cache.begin(node)
        var kept = 0
        for round in 0..<3 {
            for other in UInt64(1000)..<1150 {
                let answer = cache.open(NodeID(other), looking: 1)
                #expect(answer == .refill || round > 0 && answer == .reuse)
                if answer == .reuse { kept += 1 }
                cache.close(NodeID(other))
                #expect(cache.count <= 100)
            }
        }
        #expect(kept > 0)
        #expect(cache.open(node, looking: 1) == .reuse)
        #expect(cache.open(node, looking: 2) == .uncached)
        for other in UInt64(2000)..<5000 {
            #expect(cache.open(NodeID(other), looking: 1) == .refill)
            cache.close(NodeID(other))
        }
        for other in UInt64(1000)..<1150 { #expect(cache.open(NodeID(other), looking: 1) == .refill) }
    }

    @Test("All that are being read at once are remembered, and no longer than that")
    func readersExceedCapacity() {
        var cache = KernelCacheTracker<Int>(capacity: 10)
        for other in UInt64(1000)..<2000 { #expect(cache.open(NodeID(other), looking: 1) == .refill) }
        #expect(cache.count == 1000)
        for other in UInt64(1000)..<2000 { cache.close(NodeID(other)) }
        for other in UInt64(3000)..<8000 {
            #expect(cache.open(NodeID(other), looking: 1) == .refill)
            cache.close(NodeID(other))
        }
        #expect(cache.count <= 20)
    }
}
