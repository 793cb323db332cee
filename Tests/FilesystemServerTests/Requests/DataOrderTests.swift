// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import FuseBridge
import Synchronization
import Testing

@Suite("The order of READ and WRITE requests")
struct DataOrderTests {
    private let node = NodeID(7)
    private let order = DataOrder()

    private final class Log: Sendable {
        private let words = Mutex<[String]>([])
        func note(_ word: String) { words.withLock { $0.append(word) } }
        var all: [String] { words.withLock { $0 } }
    }

    private func enter(
        _ kind: DataRequest.Kind, _ bytes: Range<Int64>, by thread: Int32 = 1, after reads: UInt64 = 0
    ) -> DataOrder.DataTicket? {
        order.enter(DataRequest(kind, of: bytes, by: thread, after: reads), of: node)
    }

    @Test("READs are not ordered if no program has the file open for writing")
    func readsAreUnorderedWithoutAWriter() throws {
        #expect(enter(.reading, 0..<10) == nil)
        _ = order.open(node)
        #expect(try #require(enter(.reading, 0..<10)).isFirst)
        #expect(order.enter(DataRequest(.reading, of: 0..<10, by: 1), of: NodeID(8)) == nil)
    }

    @Test("After the last writer closed the file, requests are no longer ordered")
    func requestsAreUnorderedAfterTheLastWriterHasClosedTheFile() {
        _ = order.open(node)
        _ = order.open(node)
        order.close(node)
        #expect(enter(.reading, 0..<10) != nil)
        order.close(node)
        #expect(order.enter(DataRequest(.reading, of: 0..<10, by: 1), of: node) != nil, "one is under way")
    }

    @Test("A READ waits only for WRITEs of the same bytes")
    func aReadWaitsForAWriteOfTheSameBytes() throws {
        _ = order.open(node)
        let log = Log()
        let write = try #require(enter(.writing, 0..<10))
        let read = try #require(enter(.reading, 5..<20))
        #expect(write.isFirst)
        #expect(!read.isFirst)
        #expect(try #require(enter(.reading, 10..<20)).isFirst)
        order.whenFirst(read) { log.note("read") }
        #expect(log.all == [])
        order.end(write)
        #expect(log.all == ["read"])
    }

    @Test("A READ whose wait is already over runs at once")
    func aReadWhoseWaitIsOverRunsAtOnce() throws {
        _ = order.open(node)
        let log = Log()
        let write = try #require(enter(.writing, 0..<10))
        let read = try #require(enter(.reading, 0..<10))
        order.end(write)
        order.whenFirst(read) { log.note("read") }
        #expect(log.all == ["read"])
    }

    @Test("Requests for the same bytes run in the order of their arrival")
    func requestsForTheSameBytesRunInOrder() throws {
        _ = order.open(node)
        let log = Log()
        let first = try #require(enter(.reading, 0..<10))
        let write = try #require(enter(.writing, 0..<10))
        let store = try #require(enter(.storing, 5..<6))
        let last = try #require(enter(.reading, 0..<10))
        order.whenFirst(write) { log.note("write") }
        order.whenFirst(store) { log.note("store") }
        order.whenFirst(last) { log.note("read") }
        #expect(first.isFirst)
        order.end(first)
        #expect(log.all == ["write"])
        order.end(write)
        #expect(log.all == ["write", "store"])
        order.end(store)
        #expect(log.all == ["write", "store", "read"])
    }

    @Test("A WRITE reports the bytes that other threads have read since the last WRITE as stale")
    func aWriteMakesOtherThreadsReadsStale() throws {
        _ = order.open(node)
        order.end(try #require(enter(.reading, 0..<10, by: 2)))
        order.end(try #require(enter(.reading, 20..<30, by: 3)))
        #expect(order.end(try #require(enter(.writing, 5..<25))) == [5..<10, 20..<25])
        #expect(order.end(try #require(enter(.writing, 5..<25))) == [])
    }

    @Test("A WRITE does not report reads of its own thread, or from before its handle was opened, as stale")
    func aWriteDoesNotMakeReadsOfItsOwnThreadStale() throws {
        _ = order.open(node)
        order.end(try #require(enter(.reading, 0..<10, by: 1)))
        #expect(order.end(try #require(enter(.writing, 0..<10, by: 1))) == [])
        order.end(try #require(enter(.reading, 0..<10, by: 2)))
        let before = order.open(node)
        #expect(order.end(try #require(enter(.writing, 0..<10, by: 1, after: before))) == [])
    }

    @Test("A write-back from a mapping reports no reads as stale")
    func aWriteBackFromAMappingReportsNoStaleReads() throws {
        _ = order.open(node)
        order.end(try #require(enter(.reading, 0..<10, by: 2)))
        #expect(order.end(try #require(enter(.storing, 0..<10))) == [])
        #expect(order.end(try #require(enter(.writing, 0..<10))) == [0..<10])
    }

    @Test("A WRITE reports each of a thousand earlier reads of its bytes as stale")
    func aWriteReportsEachOfAThousandEarlierReadsOfItsBytesAsStale() throws {
        _ = order.open(node)
        for place in 0..<Int64(1000) {
            order.end(try #require(enter(.reading, 2 * place..<2 * place + 1, by: Int32(2 + place % 3))))
        }
        let stale = order.end(try #require(enter(.writing, 0..<2000)))
        for place in 0..<Int64(1000) {
            #expect(stale.contains { $0.contains(2 * place) }, "\(place)")
        }
    }
}
