// SPDX-License-Identifier: Apache-2.0
package import FuseBridge
import Synchronization

/// Orders overlapping data requests of a file, where this process moves the data (D136).
///
/// The kernel sends a WRITE with the page unlocked and full of the new bytes. If it drops that page before the WRITE is
/// carried out, it sends a READ and caches the answer for good. So a READ waits for each earlier WRITE of the same bytes. A
/// WRITE waits for each READ that is being carried out.
///
/// Only files that a program has open for writing have an order. **Lock rule.** No system call is made under the mutex.
package final class DataOrder: Sendable {
    /// The place of one request, until ``end(_:)``.
    package struct DataTicket: Sendable {
        let node: NodeID
        let number: UInt64
        package let request: DataRequest
        /// Whether the request may be carried out at once.
        package let isFirst: Bool
    }

    private let files = Mutex<[NodeID: FileOrder]>([:])
    /// The number of files that have an order. It is mostly 0, and then a READ skips the table.
    private let count = Atomic<Int>(0)

    package init() {}

    /// Notes that a program opened the file for writing while this process moves its data. Returns the number of the last
    /// READ before, for the requests of the new handle.
    package func open(_ node: NodeID) -> UInt64 {
        update(node) { order in
            order.writers += 1
            return order.reads.last
        }
    }

    package func close(_ node: NodeID) { update(node) { $0.writers -= 1 } }

    /// Enters a request. Nil if it needs no order, since no WRITE can be under way.
    package func enter(_ request: DataRequest, of node: NodeID) -> DataTicket? {
        if request.kind == .reading, count.load(ordering: .acquiring) == 0 { return nil }
        return files.withLock { files in
            if let index = files.index(forKey: node) {
                let (number, isFirst) = files.values[index].enter(request)
                return DataTicket(node: node, number: number, request: request, isFirst: isFirst)
            }
            guard request.kind != .reading else { return nil }
            var order = FileOrder()
            let (number, isFirst) = order.enter(request)
            files[node] = order
            count.store(files.count, ordering: .releasing)
            return DataTicket(node: node, number: number, request: request, isFirst: isFirst)
        }
    }

    /// Runs the body when the request may be carried out, which may be now.
    package func whenFirst(_ ticket: DataTicket, _ body: @escaping @Sendable () -> Void) {
        let isNow = ticket.isFirst || files.withLock { $0[ticket.node]?.wait(ticket.number, body) ?? true }
        if isNow { body() }
    }

    /// Ends a request and starts those that waited for it.
    ///
    /// Returns the ranges that the kernel may have read too early, before the request changed them (``FileOrder/end(_:)``).
    @discardableResult
    package func end(_ ticket: DataTicket) -> [Range<Int64>] {
        let (next, stale) = update(ticket.node) { $0.end(ticket.number) }
        for body in next { body() }
        return stale
    }

    private func update<Result>(_ node: NodeID, _ change: (inout FileOrder) -> Result) -> Result {
        files.withLock { files in
            guard let index = files.index(forKey: node) else {
                var order = FileOrder()
                defer {
                    if !order.isNeedless { files[node] = order }
                    count.store(files.count, ordering: .releasing)
                }
                return change(&order)
            }
            defer {
                if files.values[index].isNeedless {
                    files.remove(at: index)
                    count.store(files.count, ordering: .releasing)
                }
            }
            return change(&files.values[index])
        }
    }
}

/// A request to read or write data of a file.
package struct DataRequest: Sendable {
    package enum Kind: Sendable {
        case reading
        /// By `write(2)`: the page is unlocked meanwhile.
        case writing
        /// Data stored to a mapping: the kernel holds the page until the request ends.
        case storing
    }

    package let kind: Kind
    let bytes: Range<Int64>
    /// The thread that made the request, or 0.
    let thread: Int32
    /// The number of the last READ before the handle was opened.
    let readsBefore: UInt64

    package init(_ kind: Kind, of bytes: Range<Int64>, by thread: Int32, after readsBefore: UInt64 = 0) {
        self.kind = kind
        self.bytes = bytes
        self.thread = thread
        self.readsBefore = readsBefore
    }

    /// The last page that is written, if it is not filled. The kernel may hold its lock until the answer.
    package func lastPage(of size: Int64) -> Range<Int64>? {
        let begin = (bytes.upperBound - 1) / size * size
        guard bytes.lowerBound > begin || bytes.upperBound - begin < size else { return nil }
        return begin..<bytes.upperBound
    }

    fileprivate func mustFollow(_ earlier: DataRequest) -> Bool {
        (kind != .reading || earlier.kind != .reading) && bytes.overlaps(earlier.bytes)
    }
}

/// The requests for the data of one file, in the order of their arrival.
struct FileOrder {
    private struct Entry {
        let number: UInt64
        let request: DataRequest
        var state: State
    }

    private enum State {
        case begun
        /// The body is set later than the request is entered.
        case waiting((@Sendable () -> Void)?)
    }

    /// The number of open handles that may write.
    var writers = 0
    private var entries: [Entry] = []
    private var nextNumber: UInt64 = 0
    /// The ranges that were read since the last WRITE.
    private(set) var reads = RecentReads()

    var isNeedless: Bool { writers == 0 && entries.isEmpty }

    mutating func enter(_ request: DataRequest) -> (number: UInt64, isFirst: Bool) {
        let number = nextNumber
        nextNumber &+= 1
        let isFirst = !entries.contains { request.mustFollow($0.request) }
        entries.append(Entry(number: number, request: request, state: isFirst ? .begun : .waiting(nil)))
        return (number, isFirst)
    }

    /// Returns whether the request may be carried out already; otherwise the body is stored.
    mutating func wait(_ number: UInt64, _ body: @escaping @Sendable () -> Void) -> Bool {
        guard let index = entries.firstIndex(where: { $0.number == number }),
            case .waiting = entries[index].state
        else { return true }
        entries[index].state = .waiting(body)
        return false
    }

    /// Returns the bodies that may run now. For a WRITE, also returns its ranges that were read while it may have been on
    /// its way.
    ///
    /// The kernel fills the pages of a `write(2)` in turn, and waits for a page that is being read. It may drop a full page
    /// and read it again before the WRITE arrives; then it caches old bytes for good. Such a READ has these properties:
    /// - It comes after the previous WRITE, since the kernel locks the file while it writes.
    /// - It comes after the handle was opened, when the kernel drops its cache.
    /// - It comes from another thread than the writing one.
    mutating func end(_ number: UInt64) -> (next: [@Sendable () -> Void], stale: [Range<Int64>]) {
        guard let index = entries.firstIndex(where: { $0.number == number }) else { return ([], []) }
        let request = entries.remove(at: index).request
        var stale: [Range<Int64>] = []
        switch request.kind {
        case .reading: if writers > 0 { reads.add(request) }
        case .writing: stale = reads.take(overlapping: request)
        case .storing: break
        }
        return (entries.isEmpty ? [] : beginNext(), stale)
    }

    private mutating func beginNext() -> [@Sendable () -> Void] {
        var bodies: [@Sendable () -> Void] = []
        for index in entries.indices {
            guard case .waiting(let body) = entries[index].state else { continue }
            let request = entries[index].request
            guard !entries[..<index].contains(where: { request.mustFollow($0.request) }) else { continue }
            entries[index].state = .begun
            if let body { bodies.append(body) }
        }
        return bodies
    }
}

/// The ranges that were read recently, and the reading threads.
struct RecentReads {
    private struct Read {
        var number: UInt64
        var bytes: Range<Int64>
        let thread: Int32
    }

    /// The most reads that are stored separately. More are merged into one read of the whole range.
    private static let most = 64

    private var reads: [Read] = []
    /// The number of the last READ.
    private(set) var last: UInt64 = 0

    mutating func add(_ request: DataRequest) {
        last &+= 1
        if let before = reads.last, before.thread == request.thread,
            before.bytes.upperBound == request.bytes.lowerBound
        {
            reads[reads.count - 1].bytes = before.bytes.lowerBound..<request.bytes.upperBound
            reads[reads.count - 1].number = last
            return
        }
        guard reads.count == Self.most else {
            return reads.append(Read(number: last, bytes: request.bytes, thread: request.thread))
        }
        let all = reads.reduce(request.bytes) {
            min($0.lowerBound, $1.bytes.lowerBound)..<max($0.upperBound, $1.bytes.upperBound)
        }
        reads.removeAll(keepingCapacity: true)
        reads.append(Read(number: last, bytes: all, thread: 0))
    }

    /// Returns the parts of a written range that other threads have read. Forgets all earlier reads.
    mutating func take(overlapping write: DataRequest) -> [Range<Int64>] {
        guard !reads.isEmpty else { return [] }
        defer { reads.removeAll(keepingCapacity: true) }
        return reads.compactMap { read in
            guard read.number > write.readsBefore, read.thread == 0 || read.thread != write.thread else {
                return nil
            }
            let common = read.bytes.clamped(to: write.bytes)
            return common.isEmpty ? nil : common
        }
    }
}
