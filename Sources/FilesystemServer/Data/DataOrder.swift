// SPDX-License-Identifier: Apache-2.0
package import FuseBridge
import Synchronization

/// Orders overlapping READ and WRITE requests of a file, if the daemon moves the file's data (D136).
///
/// For a `write(2)`, the kernel fills a page with the new bytes, unlocks the page, and sends a WRITE. The kernel may drop this
/// page before the daemon carries out the WRITE. If a program then reads the page, the kernel sends a READ, and caches the
/// answer permanently. So a READ waits for each earlier WRITE of the same bytes. A WRITE waits for each READ of the same bytes
/// that is being carried out.
///
/// A file has an order only while a program has it open for writing, or while a request for the file is running or waiting.
///
/// **Lock rule.** No system call is made under the mutex.
package final class DataOrder: Sendable {
    /// The place of one request in the order of its file. It ends with ``end(_:)``.
    package struct DataTicket: Sendable {
        let node: NodeID
        let number: UInt64
        package let request: DataRequest
        /// Whether the request may be carried out without waiting for an earlier request.
        package let isFirst: Bool
    }

    private let files = Mutex<[NodeID: FileOrder]>([:])
    /// The number of files that have an order. If the number is 0, which is usual, a READ does not search the table `files`.
    private let count = Atomic<Int>(0)

    package init() {}

    /// Notes that a program opened the file for writing while the daemon moves the file's data. Returns the number of the last
    /// READ before this open. Each request of the new handle contains that number (``DataRequest``).
    package func open(_ node: NodeID) -> UInt64 {
        update(node) { order in
            order.writers += 1
            return order.reads.last
        }
    }

    package func close(_ node: NodeID) { update(node) { $0.writers -= 1 } }

    /// Adds a request to the order of its file. Returns nil for a READ of a file without an order: no WRITE can be running, so
    /// the READ need not wait.
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

    /// Runs the body when the request no longer has to wait for an earlier request. The body may run during this call.
    package func whenFirst(_ ticket: DataTicket, _ body: @escaping @Sendable () -> Void) {
        let isNow = ticket.isFirst || files.withLock { $0[ticket.node]?.wait(ticket.number, body) ?? true }
        if isNow { body() }
    }

    /// Ends a request, and starts the requests that waited only for this request.
    ///
    /// For a WRITE, returns the ranges that the kernel may have read before the daemon wrote them (``FileOrder/end(_:)``).
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
        /// A WRITE for `write(2)`. The kernel does not lock the pages while it waits for the answer.
        case writing
        /// A WRITE of data that a program wrote to a mapping. The kernel locks the page until the WRITE is answered.
        case storing
    }

    package let kind: Kind
    let bytes: Range<Int64>
    /// The thread that caused the request, or 0 if the thread is not known.
    let thread: Int32
    /// The number of the last READ of the file before the open by which the program sends this request.
    let readsBefore: UInt64

    package init(_ kind: Kind, of bytes: Range<Int64>, by thread: Int32, after readsBefore: UInt64 = 0) {
        self.kind = kind
        self.bytes = bytes
        self.thread = thread
        self.readsBefore = readsBefore
    }

    /// The part of the last page that the request writes; nil if the request writes the whole page. The kernel may hold the
    /// lock of a partly written page until the request is answered.
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
        /// The request waits. The body is nil until `wait` is called, after `enter`.
        case waiting((@Sendable () -> Void)?)
    }

    /// The number of open handles by which programs may write to the file.
    var writers = 0
    private var entries: [Entry] = []
    private var nextNumber: UInt64 = 0
    /// The ranges that the kernel read since the last WRITE for `write(2)` ended.
    private(set) var reads = RecentReads()

    var isNeedless: Bool { writers == 0 && entries.isEmpty }

    mutating func enter(_ request: DataRequest) -> (number: UInt64, isFirst: Bool) {
        let number = nextNumber
        nextNumber &+= 1
        let isFirst = !entries.contains { request.mustFollow($0.request) }
        entries.append(Entry(number: number, request: request, state: isFirst ? .begun : .waiting(nil)))
        return (number, isFirst)
    }

    /// Returns true if the request may be carried out now. Otherwise keeps the body until the request may be carried out, and
    /// returns false.
    mutating func wait(_ number: UInt64, _ body: @escaping @Sendable () -> Void) -> Bool {
        guard let index = entries.firstIndex(where: { $0.number == number }),
            case .waiting = entries[index].state
        else { return true }
        entries[index].state = .waiting(body)
        return false
    }

    /// Ends the request with the given number. Returns the bodies of the requests that may run now. For a WRITE, also returns
    /// the ranges that the kernel may have read too early.
    ///
    /// For a `write(2)`, the kernel fills one page after another. The kernel may drop a filled page, and read it again before
    /// the daemon gets the WRITE. In this case the kernel caches the old bytes permanently. A READ that was too early has these
    /// properties:
    /// - The READ comes after the previous WRITE, because the kernel locks the file during a `write(2)`.
    /// - The READ comes after the handle was opened, because the kernel drops its cache at the open.
    /// - The READ comes from another thread than the WRITE.
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

/// The ranges of a file that the kernel read recently, each with the thread that caused the read.
struct RecentReads {
    private struct Read {
        var number: UInt64
        var bytes: Range<Int64>
        let thread: Int32
    }

    /// The most reads that are recorded separately. If there are more reads, all of them are merged into one read that covers
    /// all ranges.
    private static let most = 64

    private var reads: [Read] = []
    /// The number of the latest READ; READs are counted from 1.
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

    /// Returns the parts of the written range that other threads have read since the last WRITE. Forgets all recorded reads.
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
