// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Reads and writes the data of files for which the kernel does not do so itself. Also carries out operations such as
/// fsync(2), which the kernel always leaves to the daemon.
///
/// These operations may block, so workers carry them out. Only a read of cached data is answered without a worker.
/// Requests for the same bytes are carried out in the order of their arrival (``DataOrder``).
final class ReadWrite: Sendable {
    private let context: MountContext
    private let preserver: ContentPreserver
    private let data: DataPlane
    private let closePreserver: ClosePreserver
    private let unseenOverwrites: UnseenOverwrites
    private let saveLifecycle: SaveLifecycle
    private let engine: Engine
    private let connection: Connection
    private let handles: HandleTable

    init(
        _ context: MountContext, _ tree: FileTree, _ data: DataPlane, _ preserver: ContentPreserver,
        _ closePreserver: ClosePreserver, _ unseenOverwrites: UnseenOverwrites,
        _ saveLifecycle: SaveLifecycle
    ) {
        self.unseenOverwrites = unseenOverwrites
        self.context = context
        self.preserver = preserver
        self.data = data
        self.closePreserver = closePreserver
        self.saveLifecycle = saveLifecycle
        engine = context.engine
        connection = context.connection
        handles = tree.handles
    }

    func read(_ range: FileRange, reply: consuming Reply) {
        engine.counters.reads.count()
        guard let handle = handles[range.handle] else { return reply.fail(.badDescriptor) }
        data.noteReading(by: handle)
        unseenOverwrites.noteRead(by: handle)
        let ticket = handles.dataOrder.enter(
            DataRequest(.reading, of: range.bytes, by: reply.caller.thread), of: handle.node.id)
        if ticket?.isFirst ?? true, let file = handle.file {
            var bytes = [UInt8](repeating: 0, count: Int(range.length))
            let cached = bytes.withUnsafeMutableBytes { file.file.readFromCache(into: $0, at: range.offset) }
            if cached != nil {
                reply.bytes(bytes.span.bytes)
                if let ticket { handles.dataOrder.end(ticket) }
                return
            }
        }
        answer(reply, about: handle, in: ticket) { () throws(Errno) in
            let file = try handle.anyFile()
            var bytes = [UInt8](repeating: 0, count: Int(range.length))
            let result: Result<Int, Errno> = bytes.withUnsafeMutableBytes { buffer in
                do throws(Errno) {
                    return .success(try file.file.read(into: buffer, at: range.offset))
                } catch {
                    return .failure(error)
                }
            }
            let count = try result.get()
            return { (reply: consuming Reply) in reply.bytes(bytes.span.bytes.extracting(first: count)) }
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer, to range: FileRange, reply: consuming Reply) {
        engine.counters.writes.count()
        guard let handle = handles[range.handle] else { return reply.fail(.badDescriptor) }
        let caller = reply.caller
        saveLifecycle.noteSaveActivity(by: caller.thread)
        // The write is noted. Otherwise the daemon would take an unchanged file offset as a sign that nothing was
        // written, and a write can end at the old offset.
        handle.noteWriteRequest()
        let copy = Array(bytes)
        let request = DataRequest(
            range.isFromMapping ? .storing : .writing, of: range.bytes, by: caller.thread,
            after: handle.readsBefore.load(ordering: .relaxed))
        let ticket = handles.dataOrder.enter(request, of: handle.node.id)
        answer(reply, about: handle, for: range.isFromMapping ? .storing : .writing, in: ticket) {
            [self] () throws(Errno) in
            preserveAppended(before: range, by: handle)
            guard unseenOverwrites.prepareWrite(by: handle) else { throw .busy }
            let file = try handle.anyFile()
            let result: Result<Int, Errno> = copy.withUnsafeBytes { buffer in
                useRoom(of: caller)
                defer { ThreadIdentity.becomeDaemon() }
                do throws(Errno) {
                    return .success(try file.file.write(buffer, at: range.isAtEnd ? nil : range.offset))
                } catch {
                    return .failure(error)
                }
            }
            let count = try result.get()
            try data.stripPrivileges(of: handle.node, writtenBy: caller)
            return { (reply: consuming Reply) in reply.written(count) }
        }
    }

    /// Preserves the data that other programs have appended, before a handle's first write at another place than the
    /// end of the file.
    ///
    /// The handle was opened to append only. So its claim was granted beside the claims of other such programs. But its
    /// program can end the append mode by fcntl(2), and then overwrite their data.
    private func preserveAppended(before range: FileRange, by handle: Handle) {
        guard handle.onlyAppends, !range.isAtEnd, !range.isFromMapping, handle.hasClaim,
            handle.node.isOpen(besides: 1)
        else { return }
        if handle.noteOverwrite() { preserver.preserveBesideSuspendedWriter(in: handle.node, by: handle) }
    }

    func synchronize(_ id: NodeID, handle: HandleID, dataOnly: Bool, reply: consuming Reply) {
        guard let handle = handles[handle] else { return reply.fail(.badDescriptor) }
        saveLifecycle.noteSaveActivity(by: reply.caller.thread)
        answer(reply, about: handle, for: .syncing) { [self] () throws(Errno) in
            let file = try handle.fileToLookAt()
            do throws(Errno) {
                try file.file.synchronize(dataOnly: dataOnly)
            } catch {
                oweOthers(error, than: handle)
                _ = handle.takeOwedError()
                throw error
            }
            if let owed = handle.takeOwedError() { throw owed }
            return { (reply: consuming Reply) in reply.succeed() }
        }
    }

    /// Answers the FLUSH request of a close(2). The answer comes when the contents that the writer leaves are
    /// preserved.
    ///
    /// On a file system that may be remote, the answer also reports errors of earlier writes.
    func flush(_ handle: HandleID, reply: consuming Reply) {
        guard let handle = handles[handle], handle.mayWrite else { return reply.succeed() }
        let thread = reply.caller.thread
        let parked = Parked(reply)
        closePreserver.preserveAtClose(atCloseOf: handle, by: thread) { [self] in
            guard let reply = parked.take() else { return }
            guard handle.hasErrorsAtClose else { return reply.succeed() }
            answer(reply, about: handle, for: .syncing) { () throws(Errno) in
                // If the handle has no descriptor any more, it was flushed when the descriptor was closed.
                if let file = handle.file { try file.file.flush() }
                if let owed = handle.takeOwedError() { throw owed }
                return { (reply: consuming Reply) in reply.succeed() }
            }
        }
    }

    /// Stores a write error for all other handles of the file.
    ///
    /// The kernel reports a write error to every descriptor that is open at that time. With passthrough, a handle opens
    /// a descriptor of its own only when it needs one. Without the stored error, such a handle would never report the
    /// error.
    private func oweOthers(_ error: Errno, than handle: Handle) {
        for other in handles.all(on: handle.node) where other !== handle { other.owe(error) }
    }

    func allocate(_ range: FileRange, mode: Int32, reply: consuming Reply) {
        guard let handle = handles[range.handle] else { return reply.fail(.badDescriptor) }
        let caller = reply.caller
        answer(reply, about: handle, for: .writing) { [self] () throws(Errno) in
            guard unseenOverwrites.prepareWrite(by: handle) else { throw .busy }
            let file = try handle.anyFile()
            useRoom(of: caller)
            defer { ThreadIdentity.becomeDaemon() }
            try file.file.allocate(mode: mode, offset: range.offset, length: range.length)
            try data.stripPrivileges(of: handle.node, writtenBy: caller)
            return { (reply: consuming Reply) in reply.succeed() }
        }
    }

    func copy(_ range: FileRange, to target: FileRange, reply: consuming Reply) {
        guard let from = handles[range.handle], let to = handles[target.handle] else {
            return reply.fail(.badDescriptor)
        }
        // After a successful copy, the kernel drops the target's cached pages. Then data would be lost that programs have just
        // written to a mapping of the target. After the error EOPNOTSUPP, the kernel copies the data itself (D138).
        if handles.writers(on: to.node).contains(where: \.mayHoldDirtyPages) {
            return reply.fail(.unsupported)
        }
        let caller = reply.caller
        unseenOverwrites.noteRead(by: from)
        answer(reply, about: to, for: .writing) { [self] () throws(Errno) in
            guard unseenOverwrites.prepareWrite(by: to) else { throw .busy }
            let (source, copy) = (try from.fileToLookAt(), try to.anyFile())
            useRoom(of: caller)
            defer { ThreadIdentity.becomeDaemon() }
            let count = try source.file.copyRange(
                at: range.offset, to: copy.file, at: target.offset, length: Int(range.length))
            try data.stripPrivileges(of: to.node, writtenBy: caller)
            // The kernel itself notices that the target was changed. It does not notice that the source file was read,
            // which changes that file's access time.
            connection.invalidateAttributes(of: from.node.id)
            return { (reply: consuming Reply) in reply.written(count) }
        }
    }

    func seek(_ id: NodeID, handle: HandleID, offset: Int64, whence: Int32, reply: consuming Reply) {
        guard let handle = handles[handle] else { return reply.fail(.badDescriptor) }
        do throws(Errno) {
            reply.position(try handle.fileToLookAt().file.seek(to: offset, whence: whence))
        } catch {
            reply.fail(error)
        }
    }

    /// Gives the current thread the caller's user and group. Some file systems reserve space for root, and other users'
    /// writes must not use that space.
    private func useRoom(of caller: Caller) { ThreadIdentity.become(user: caller.user, group: caller.group) }

    /// Runs `body` on a worker, when all earlier requests for the same bytes are done. Answers the request with the
    /// result or the error.
    ///
    /// Work that waits for a disk has separate threads. So a slow disk does not delay reads of cached data.
    private func answer(
        _ reply: consuming Reply, about handle: Handle, for purpose: WorkerPools.WorkKind = .work,
        in ticket: DataOrder.DataTicket? = nil,
        _ body: @escaping @Sendable () throws(Errno) -> (consuming Reply) -> Void
    ) {
        let parked = Parked(reply)
        let carryOut = { @Sendable [self] in
            context.work(on: handle.node, for: purpose) { [self] in
                let result: Result<(consuming Reply) -> Void, Errno>
                do throws(Errno) { result = .success(try body()) } catch { result = .failure(error) }
                end(ticket, of: handle.node) {
                    guard let reply = parked.take() else { return }
                    switch result {
                    case .success(let answer): answer(reply)
                    case .failure(let error): reply.fail(error)
                    }
                }
            }
        }
        if let ticket { handles.dataOrder.whenFirst(ticket, carryOut) } else { carryOut() }
    }

    /// How long an answer waits at most until the kernel has dropped pages, in nanoseconds. The first time is for the
    /// last page of a write: the drop of this page may itself wait for the answer. The second time is for all other
    /// pages.
    private static let (longestForLast, longestForOthers): (UInt64, UInt64) = (10_000_000, 250_000_000)

    private static let pageSize = Int64(sysconf(Int32(_SC_PAGESIZE)))

    /// Answers a request that was carried out, and starts the requests that waited for it.
    ///
    /// A READ is answered before the waiting requests start. A WRITE is answered after that: first the kernel must drop
    /// pages that it may have read too early (D137).
    ///
    /// The drop of a page waits until the page is unlocked. The last page of the WRITE may be locked until the answer.
    /// So the answer waits only briefly for the drop of this page.
    private func end(_ ticket: DataOrder.DataTicket?, of node: Node, answering answer: @escaping () -> Void) {
        guard let ticket else { return answer() }
        guard ticket.request.kind != .reading else {
            answer()
            return _ = handles.dataOrder.end(ticket)
        }
        let stale = handles.dataOrder.end(ticket)
        guard !stale.isEmpty else { return answer() }
        let once = Once(answer)
        let last = ticket.request.lastPage(of: Self.pageSize) ?? .max..<(.max)
        drop(
            stale.map { $0.clamped(to: 0..<last.lowerBound) }, of: node, within: Self.longestForOthers,
            else: once)
        drop(stale.map { $0.clamped(to: last) }, of: node, within: Self.longestForLast, else: once)
        once.run()
    }

    private func drop(_ bytes: [Range<Int64>], of node: Node, within time: UInt64, else once: Once) {
        let bytes = bytes.filter { !$0.isEmpty }
        guard !bytes.isEmpty else { return }
        engine.timers.schedule(at: MonotonicClock.nanoseconds + time) { once.run() }
        for range in bytes { connection.invalidateContents(of: node.id, in: range) }
    }
}

/// Runs a closure once, on the first thread that calls ``run()``.
private final class Once: @unchecked Sendable {
    // @unchecked: the one thread that has changed `isDone` runs the body.
    private let isDone = Atomic(false)
    private let body: () -> Void

    init(_ body: @escaping () -> Void) { self.body = body }

    func run() {
        if !isDone.exchange(true, ordering: .acquiringAndReleasing) { body() }
    }
}

extension FileRange {
    /// The bytes of the range. For appended data the range has no end, because the file may have grown.
    fileprivate var bytes: Range<Int64> {
        let (end, isBeyond) = offset.addingReportingOverflow(max(length, 0))
        return max(offset, 0)..<max(offset, 0, isAtEnd || isBeyond ? .max : end)
    }
}
