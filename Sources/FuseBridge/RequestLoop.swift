// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem
import Synchronization

/// Reads requests and serves them, on all threads that call ``run(as:in:)``.
///
/// libfuse's own loop is not suitable, because its threads always sleep until a request comes. It also starts and ends threads
/// by rules of its own.
struct RequestLoop: @unchecked Sendable {
    // @unchecked: receiving, processing and unmounting are the session's thread-safe functions.
    let session: OpaquePointer
    let root: Unmanaged<FuseSessionContext>
    let polling: BusyPolling

    /// Calls to the source are assumed not to block. If a request takes longer than this time in nanoseconds, it is reported.
    private static let longestRequest: UInt64 = 1_000_000_000

    /// After a failed read, the thread waits for `pause`, in microseconds. After `mostPauses` failed reads in a row, the thread
    /// ends.
    private static let (pause, mostPauses): (UInt32, Int) = (10_000, 100)

    /// Serves requests until the connection has ended, or until the thread is not needed any more. Returns true if the
    /// connection has ended.
    ///
    /// `thread` is a number that no other thread has, from 1 on.
    func run(as thread: Int, in requestThreads: RequestThreads) -> Bool {
        do throws(Errno) {
            try ThreadIdentity.prepare()
        } catch {
            // A thread that is not prepared would create files as the wrong user. So this thread must not serve requests.
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
                // The kernel may lack the memory for a request at the moment, so the read is repeated after a pause.
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

    /// Serves a request, if there is one, and a postponed FORGET. Returns whether the thread should continue.
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
