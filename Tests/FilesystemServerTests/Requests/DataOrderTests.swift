// SPDX-License-Identifier: Apache-2.0
import FilesystemServer
import FuseBridge
import Synchronization
import Testing

@Suite("The order of data requests")
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

    @Test("Reads are not ordered as long as no program has the file open for writing")
    func readsWithoutWriterAreUnordered() throws {
        #expect(enter(.reading, 0..<10) == nil)
        _ = order.open(node)
        #expect(try #require(enter(.reading, 0..<10)).isFirst)
        #expect(order.enter(DataRequest(.reading, of: 0..<10, by: 1), of: NodeID(8)) == nil)
    }

    @Test("After the last writer has closed the file, no request is ordered any more")
    func orderEndsWithLastWriter() {
        _ = order.open(node)
        _ = order.open(node)
        order.close(node)
        #expect(enter(.reading, 0..<10) != nil)
        order.close(node)
        #expect(order.enter(DataRequest(.reading, of: 0..<10, by: 1), of: node) != nil, "one is under way")
    }

    @Test("A READ waits for a WRITE of the same bytes, and for no other")
    func readWaitsForOverlappingWrite() throws {
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

    @Test("A body that comes after the wait is over runs at once")
    func lateBodyRunsAtOnce() throws {
        _ = order.open(node)
        let log = Log()
        let write = try #require(enter(.writing, 0..<10))
        let read = try #require(enter(.reading, 0..<10))
        order.end(write)
        order.whenFirst(read) { log.note("read") }
        #expect(log.all == ["read"])
    }

    @Test("A WRITE waits for reads and writes of the same bytes, in the order of their arrival")
    func writeWaitsInArrivalOrder() throws {
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

    @Test("Bytes that another thread has read since the last WRITE are stale after a WRITE of them")
    func readByOtherThreadIsStale() throws {
        _ = order.open(node)
        order.end(try #require(enter(.reading, 0..<10, by: 2)))
        order.end(try #require(enter(.reading, 20..<30, by: 3)))
        #expect(order.end(try #require(enter(.writing, 5..<25))) == [5..<10, 20..<25])
        #expect(order.end(try #require(enter(.writing, 5..<25))) == [])
    }

    @Test("Reads of the writing thread itself, and reads before its handle was opened, are not stale")
    func ownReadIsNotStale() throws {
        _ = order.open(node)
        order.end(try #require(enter(.reading, 0..<10, by: 1)))
        #expect(order.end(try #require(enter(.writing, 0..<10, by: 1))) == [])
        order.end(try #require(enter(.reading, 0..<10, by: 2)))
        let before = order.open(node)
        #expect(order.end(try #require(enter(.writing, 0..<10, by: 1, after: before))) == [])
    }

    @Test("A store to a mapping invalidates no earlier read")
    func mappedStoreInvalidatesNothing() throws {
        _ = order.open(node)
        order.end(try #require(enter(.reading, 0..<10, by: 2)))
        #expect(order.end(try #require(enter(.storing, 0..<10))) == [])
        #expect(order.end(try #require(enter(.writing, 0..<10))) == [0..<10])
    }

    @Test("However many reads there are, none is missed")
    func manyReadsAreRemembered() throws {
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
