// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem
import Synchronization

/// Reads requests and serves them, on as many threads as call ``run(as:in:)``.
///
/// libfuse's own loop would do, but it starts and ends threads as it sees fit, it takes its configuration through macros, and
/// its threads always sleep until a request comes.
struct RequestLoop: @unchecked Sendable {
    // @unchecked: receiving, processing and unmounting are the session's thread-safe functions.
    let session: OpaquePointer
    let root: Unmanaged<SessionContext>
    let polling: BusyPolling

    /// The source's own calls are taken not to block; one that takes longer than this is told of.
    private static let longestRequest: UInt64 = 1_000_000_000

    /// How long a thread that gets no request for another reason than the end waits, in microseconds, and how often in a row.
    private static let (pause, mostPauses): (UInt32, Int) = (10_000, 100)

    /// Returns when the connection has ended, which is what it tells, or the thread is not needed. `thread` is a number of its
    /// own, from 1.
    func run(as thread: Int, in requestThreads: RequestThreads) -> Bool {
        do throws(Errno) {
            try ThreadIdentity.prepare()
        } catch {
            // Files would be created under the wrong identity: better to serve nothing.
            if requestThreads.canServeWithout(thread) { return false }
            fuse_session_exit(session)
            return true
        }
        var buffer = fuse_buf()
        defer { free(buffer.mem) }
        var reader = RequestReader(session, polling, thread: thread)
        var pauses = 0
        while fuse_session_exited(session) == 0 {
            let received = reader.receive(&buffer)
            let hasForget = received == -EAGAIN && !polling.postponed.isEmpty
            if received == -EINTR || (received == -EAGAIN && !hasForget) { continue }
            guard received > 0 || hasForget else {
                let isOver = received == 0 || received == -ENODEV || received == -ECONNABORTED
                guard !isOver, pauses < Self.mostPauses, fuse_session_exited(session) == 0 else {
                    return true
                }
                // There may be no memory for a request just now.
                pauses += 1
                usleep(Self.pause)
                continue
            }
            pauses = 0
            if !serve(&buffer, received, reading: &reader, as: thread, in: requestThreads) {
                polling.leave(thread, session)
                return false
            }
        }
        return true
    }

    /// Serves a request, if there is one, and a FORGET that was put off. Returns whether the thread is to go on.
    private func serve(
        _ buffer: inout fuse_buf, _ received: CInt, reading reader: inout RequestReader, as thread: Int,
        in requestThreads: RequestThreads
    ) -> Bool {
        let start = MonotonicClock.nanoseconds
        root._withUnsafeGuaranteedRef { $0.lastRequest.store(start, ordering: .relaxed) }
        polling.requestBegan(by: thread, at: start)
        requestThreads.requestBegan()
        if received > 0 {
            if !PostponedForget.mayWait(for: buffer, received) { polling.postponed.serve(session) }
            fuse_session_process_buf(session, &buffer)
        }
        if polling.postponed.serve(session) { reader.servedNobody = true }
        let now = MonotonicClock.nanoseconds
        let isNeeded = requestThreads.requestEnded(by: thread, at: now)
        polling.requestServed(by: thread, from: start, to: now)
        if now > start + Self.longestRequest {
            root._withUnsafeGuaranteedRef { $0.filesystem.noteSlowRequest(now - start) }
        }
        return isNeeded
    }
}
