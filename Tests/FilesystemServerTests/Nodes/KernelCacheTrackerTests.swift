// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import FuseBridge
import Testing

@Suite("Reuse of the kernel's cache of names and contents")
struct KernelCacheTrackerTests {
    private let node = NodeID(7)

    @Test("An open reuses the kernel's cache if the file is unchanged since the cache was filled")
    func anOpenOfAnUnchangedFileReusesTheKernelsCache() {
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

    @Test(
        "Until the last reader of a file's former state closes it, opens do not use the cache; then an open refills the cache"
    )
    func opensDoNotUseTheCacheWhileAReaderOfTheFilesFormerStateRemains() {
        var cache = KernelCacheTracker<Int>()
        #expect(cache.open(node, looking: 1) == .refill)
        #expect(cache.open(node, looking: 2) == .uncached)
        // The first open still reads the former state of the file. It could fill the kernel's cache with this state, so the
        // next open does not use the cache.
        #expect(cache.open(node, looking: 2) == .uncached)
        #expect(cache.open(node, looking: 1) == .uncached)
        cache.close(node)
        #expect(cache.open(node, looking: 2) == .refill)
        cache.begin(node)
        #expect(cache.open(node, looking: 2) == .reuse)
    }

    @Test("Before the first read after a refill of the kernel's cache, further opens do not use the cache")
    func opensBeforeTheFirstReadAfterARefillDoNotUseTheKernelsCache() {
        var cache = KernelCacheTracker<Int>()
        #expect(cache.open(node, looking: 1) == .refill)
        #expect(cache.open(node, looking: 1) == .uncached)
        cache.close(node)
        #expect(cache.open(node, looking: 1) == .reuse)
    }

    @Test("After an invalidation of the kernel's cache, the next open refills the cache")
    func theNextOpenAfterAnInvalidationRefillsTheKernelsCache() {
        var cache = KernelCacheTracker<Int>()
        #expect(cache.open(node, looking: 1) == .refill)
        cache.invalidate(node)
        cache.close(node)
        #expect(cache.open(node, looking: 1) == .refill)
        cache.invalidate(NodeID(8))
        cache.close(NodeID(8))
    }

    @Test("After the tracker gave up a file's cache, the next open of the file refills the cache")
    func theNextOpenRefillsAKernelCacheThatTheTrackerGaveUp() {
        var cache = KernelCacheTracker<Int>()
        #expect(cache.open(node, looking: 1) == .refill)
        #expect(cache.open(node, looking: 1) == .uncached)
        cache.giveUp(node)
        #expect(cache.open(node, looking: 1) == .refill)
    }

    @Test("Above the tracker's capacity, files with readers and only some other files stay in the tracker")
    func aTrackerAboveItsCapacityForgetsNoFileWithReaders() {
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

    @Test("Files with readers may exceed the tracker's capacity, but only while the readers remain")
    func filesWithReadersMayExceedTheTrackersCapacity() {
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
