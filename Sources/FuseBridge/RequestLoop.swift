// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem
import Synchronization

/// Reads requests and serves them, on as many threads as call ``run(as:in:)``.
///
/// libfuse's own loop does not fit. It starts and ends threads by its own rules, takes its configuration through macros, and
/// its threads always sleep until a request comes.
struct RequestLoop: @unchecked Sendable {
    // @unchecked: receiving, processing and unmounting are the session's thread-safe functions.
    let session: OpaquePointer
    let root: Unmanaged<FuseSessionContext>
    let polling: BusyPolling

    /// Calls to the source are assumed not to block; a request that takes longer, in nanoseconds, is reported.
    private static let longestRequest: UInt64 = 1_000_000_000

    /// The wait in microseconds after a failed read that does not mean the end, and the limit of such waits in a row.
    private static let (pause, mostPauses): (UInt32, Int) = (10_000, 100)

    /// Serves until the connection has ended, and then returns true, or until the thread is not needed.
    ///
    /// `thread` is a number of its own, from 1.
    func run(as thread: Int, in requestThreads: RequestThreads) -> Bool {
        do throws(Errno) {
            try ThreadIdentity.prepare()
        } catch {
            // The thread would create files under the wrong identity, so it must not serve.
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
                // The kernel may lack memory for a request just now.
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

    /// Serves a request, if there is one, and a postponed FORGET; returns whether the thread is to go on.
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
