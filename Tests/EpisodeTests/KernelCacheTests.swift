// SPDX-License-Identifier: Apache-2.0
import CoordinatedFilesystem
import FuseBridge
import Testing

@Suite("Names and contents that the kernel keeps")
struct KernelCacheTests {
    private let node = NodeID(7)

    @Test("They are good while it looks as it did when it was opened to read them")
    func unchanged() {
        var cache = KernelCache<Int>()
        #expect(cache.open(node, looking: 1) == .fresh)
        cache.begin(node)
        #expect(cache.open(node, looking: 1) == .kept)
        cache.close(node)
        cache.close(node)
        #expect(cache.open(node, looking: 1) == .kept)
        #expect(cache.open(node, looking: 1) == .kept)
        cache.close(node)
        cache.close(node)
        #expect(cache.open(node, looking: 2) == .fresh)
        #expect(cache.open(NodeID(8), looking: 2) == .fresh)
    }

    @Test("While somebody reads what has changed since, nothing is kept, and afterwards all begins anew")
    func readersOfTheOld() {
        var cache = KernelCache<Int>()
        #expect(cache.open(node, looking: 1) == .fresh)
        #expect(cache.open(node, looking: 2) == .passing)
        // The first reader may still put the old names into the kernel's memory.
        #expect(cache.open(node, looking: 2) == .passing)
        #expect(cache.open(node, looking: 1) == .passing)
        cache.close(node)
        #expect(cache.open(node, looking: 2) == .fresh)
        cache.begin(node)
        #expect(cache.open(node, looking: 2) == .kept)
    }

    @Test("Until it is read, the kernel may have what was there before")
    func notRead() {
        var cache = KernelCache<Int>()
        #expect(cache.open(node, looking: 1) == .fresh)
        #expect(cache.open(node, looking: 1) == .passing)
        cache.close(node)
        #expect(cache.open(node, looking: 1) == .kept)
    }

    @Test("What was told for a moment is not kept for the next")
    func doubted() {
        var cache = KernelCache<Int>()
        #expect(cache.open(node, looking: 1) == .fresh)
        cache.doubt(node)
        cache.close(node)
        #expect(cache.open(node, looking: 1) == .fresh)
        cache.doubt(NodeID(8))
        cache.close(NodeID(8))
    }

    @Test("What was to be kept and is not after all is kept for nobody")
    func givenUp() {
        var cache = KernelCache<Int>()
        #expect(cache.open(node, looking: 1) == .fresh)
        #expect(cache.open(node, looking: 1) == .passing)
        cache.giveUp(node)
        #expect(cache.open(node, looking: 1) == .fresh)
    }

    @Test("Of many directories and files those being read are remembered, and some of the others")
    func many() {
        var cache = KernelCache<Int>(capacity: 100)
        #expect(cache.open(node, looking: 1) == .fresh)
        cache.begin(node)
        var kept = 0
        for round in 0..<3 {
            for other in UInt64(1000)..<1150 {
                let answer = cache.open(NodeID(other), looking: 1)
                #expect(answer == .fresh || round > 0 && answer == .kept)
                if answer == .kept { kept += 1 }
                cache.close(NodeID(other))
                #expect(cache.count <= 100)
            }
        }
        #expect(kept > 0)
        #expect(cache.open(node, looking: 1) == .kept)
        #expect(cache.open(node, looking: 2) == .passing)
        for other in UInt64(2000)..<5000 {
            #expect(cache.open(NodeID(other), looking: 1) == .fresh)
            cache.close(NodeID(other))
        }
        for other in UInt64(1000)..<1150 { #expect(cache.open(NodeID(other), looking: 1) == .fresh) }
    }

    @Test("However many are read at once, all of them are remembered, and no longer than that")
    func manyReaders() {
        var cache = KernelCache<Int>(capacity: 10)
        for other in UInt64(1000)..<2000 { #expect(cache.open(NodeID(other), looking: 1) == .fresh) }
        #expect(cache.count == 1000)
        for other in UInt64(1000)..<2000 { cache.close(NodeID(other)) }
        for other in UInt64(3000)..<8000 {
            #expect(cache.open(NodeID(other), looking: 1) == .fresh)
            cache.close(NodeID(other))
        }
        #expect(cache.count <= 20)
    }
}
