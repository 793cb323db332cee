// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem
import Synchronization

/// Reads requests and serves them, on as many threads as call ``run()``.
///
/// libfuse's own loop would do, but it starts and ends threads as it sees fit, and it takes its
/// configuration through macros.
struct Loop: @unchecked Sendable {
    // @unchecked: receiving, processing and unmounting are the session's thread-safe functions.
    let session: OpaquePointer
    let root: Unmanaged<SessionRoot>

    /// The source's own calls are taken not to block; one that takes longer than this is told of.
    private static let longestRequest: UInt64 = 1_000_000_000

    /// Returns when the connection has ended.
    func run() {
        do throws(Errno) {
            try ThreadIdentity.prepare()
        } catch {
            // Files would be created under the wrong identity: better to serve nothing.
            return fuse_session_exit(session)
        }
        var buffer = fuse_buf()
        defer { free(buffer.mem) }
        while fuse_session_exited(session) == 0 {
            let received = fuse_session_receive_buf(session, &buffer)
            if received == -EINTR || received == -EAGAIN { continue }
            guard received > 0 else { return }
            let start = MonotonicClock.lastTick
            root._withUnsafeGuaranteedRef { $0.lastRequest.store(start, ordering: .relaxed) }
            fuse_session_process_buf(session, &buffer)
            let now = MonotonicClock.lastTick
            if now > start + Self.longestRequest {
                root._withUnsafeGuaranteedRef { $0.filesystem.tookLong(now - start) }
            }
        }
    }
}
