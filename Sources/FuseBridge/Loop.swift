// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem
import Synchronization

/// Reads requests and serves them, on as many threads as call ``run(_:)``.
///
/// One of them leads: it alone reads, so that no request wakes a thread in vain, and so that client and daemon can share
/// a processor and its caches. The others stand by. One of them takes over when a request keeps the leader for longer
/// than ``tick``, as a disk may; and one helps as long as the leader finds the next request waiting each time.
///
/// libfuse's own loop would do, but it starts and ends threads as it sees fit, and it takes its configuration
/// through macros.
final class Loop: @unchecked Sendable {
    // @unchecked: receiving, processing and unmounting are the session's thread-safe functions.
    private let session: OpaquePointer
    private let root: Unmanaged<SessionRoot>
    /// Requests that leaders have begun and ended: odd while one is served. It is the leader's to count on, but for one
    /// step: whoever ends a request in the place of a leader that does not has become the leader.
    private let steps = Atomic<UInt64>(0)
    private let isOver = Atomic<Bool>(false)
    /// Whether the alarm is set, or the one that stands by is just looking.
    private let isWatched = Atomic<Bool>(false)
    /// Whether the leader had to wait for a request since somebody looked.
    private let hasWaited = Atomic<Bool>(true)
    private let alarm: Alarm

    /// How often is looked at a busy leader, in nanoseconds.
    private static let tick: UInt64 = 2_000_000
    /// A request that comes within this, in nanoseconds, was there already.
    private static let atOnce: UInt64 = 5_000
    /// The source's own calls are taken not to block; one that takes longer than this, in nanoseconds, is told of.
    private static let longestRequest: UInt64 = 1_000_000_000

    init(_ session: OpaquePointer, _ root: Unmanaged<SessionRoot>) throws(Errno) {
        self.session = session
        self.root = root
        alarm = try Alarm()
    }

    /// Returns when the connection has ended. The first is called with `leads`.
    func run(leads: Bool) {
        do throws(Errno) {
            try ThreadIdentity.prepare()
        } catch {
            // Files would be created under the wrong identity: better to serve nothing.
            fuse_session_exit(session)
            return finish()
        }
        var buffer = fuse_buf()
        defer { free(buffer.mem) }
        if leads { lead(from: 0, with: &buffer) }
        standBy(with: &buffer)
    }

    // MARK: The leader

    /// Returns when somebody else leads, or when the connection has ended.
    private func lead(from first: UInt64, with buffer: inout fuse_buf) {
        var step = first
        var end = MonotonicClock.nanoseconds
        while fuse_session_exited(session) == 0 {
            let received = fuse_session_receive_buf(session, &buffer)
            if received == -EINTR || received == -EAGAIN { continue }
            guard received > 0 else { break }
            let start = MonotonicClock.nanoseconds
            // To copy a large one takes a nanosecond for each byte at most.
            if start &- end > Self.atOnce + UInt64(received) { hasWaited.store(true, ordering: .relaxed) }
            steps.store(step + 1, ordering: .sequentiallyConsistent)
            // Only now, so that whoever stops watching sees the step, or is seen here to have stopped.
            if !isWatched.load(ordering: .sequentiallyConsistent) { watch() }
            end = process(&buffer, from: start)
            guard advance(from: step + 1) else { return }
            step += 2
        }
        finish()
    }

    /// Returns whether nobody else did.
    private func advance(from step: UInt64) -> Bool {
        steps.compareExchange(expected: step, desired: step + 1, ordering: .sequentiallyConsistent).exchanged
    }

    /// Returns when it was done.
    private func process(_ buffer: inout fuse_buf, from start: UInt64) -> UInt64 {
        root._withUnsafeGuaranteedRef { $0.lastRequest.store(start, ordering: .relaxed) }
        fuse_session_process_buf(session, &buffer)
        let end = MonotonicClock.nanoseconds
        if end - start > Self.longestRequest {
            root._withUnsafeGuaranteedRef { $0.filesystem.tookLong(end - start) }
        }
        return end
    }

    private func watch() {
        isWatched.store(true, ordering: .sequentiallyConsistent)
        alarm.set(after: Self.tick)
    }

    /// Wakes who stands by, and he the next.
    private func finish() {
        isOver.store(true, ordering: .sequentiallyConsistent)
        alarm.set(after: 0)
    }

    // MARK: Those who stand by

    private func standBy(with buffer: inout fuse_buf) {
        var seen: UInt64 = 0
        while true {
            if !isOver.load(ordering: .sequentiallyConsistent) { alarm.wait() }
            if isOver.load(ordering: .sequentiallyConsistent) { return finish() }
            let now = steps.load(ordering: .sequentiallyConsistent)
            let isServing = now % 2 == 1
            if now != seen {
                seen = now
                if !hasWaited.exchange(false, ordering: .relaxed) { help(with: &buffer) }
                alarm.set(after: Self.tick)
            } else if isServing {
                watch()
                if advance(from: now) { lead(from: now + 1, with: &buffer) }
            } else {
                isWatched.store(false, ordering: .sequentiallyConsistent)
                if steps.load(ordering: .sequentiallyConsistent) != now { watch() }
            }
        }
    }

    /// Serves beside the leader while requests are waiting.
    private func help(with buffer: inout fuse_buf) {
        var event = pollfd(fd: fuse_session_fd(session), events: Int16(POLLIN), revents: 0)
        while poll(&event, 1, 0) == 1, fuse_session_exited(session) == 0 {
            let received = fuse_session_receive_buf(session, &buffer)
            if received == -EINTR || received == -EAGAIN { continue }
            guard received > 0 else { return }
            _ = process(&buffer, from: MonotonicClock.nanoseconds)
        }
    }
}
