// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem

/// Reads the requests for one thread. The thread sleeps until a request comes, or polls for it (see ``BusyPolling``).
struct RequestReader {
    private let session: OpaquePointer
    private let polling: BusyPolling
    private let thread: Int
    private var pace = RequestPace()
    private var sharing = ProcessorSharingDetector()
    private var looked = 0
    /// Counts the requests that were found at the first poll. Each request that was found at a later poll halves the count.
    ///
    /// A request does not count if its client waits for the answer to this request and for no other answer.
    private var atOnce = 0
    /// The number of requests in a row that came within the usual polling time, ``BusyPolling/longest``.
    private var inTime = 0
    private var postponedAt: UInt64 = 0
    /// Whether no client waited for the answer to the last request, such as a RELEASE or FORGET. If so, the next request may
    /// have come while the last request was being served.
    var servedNobody = false

    /// How long a postponed FORGET waits for the next request, in nanoseconds.
    private static let longestPostponed: UInt64 = 20_000
    /// A time in nanoseconds. If a poll takes longer, the poller lets other threads use its processor, because the client may
    /// need it.
    private static let yielding: UInt64 = 20_000
    /// If more than this number of requests in a row came in time, the poller polls longer for the next request before it
    /// sleeps.
    ///
    /// The client may lose its processor for a moment. For example, a kernel that frees removed files takes the processor for
    /// 150 µs in every 4 ms. Then it costs more time to end polling than to continue.
    private static let many = 64
    /// If more than this number of requests were found at the first poll, one thread is not enough for the requests.
    private static let tooMany = 32
    /// After this number of requests, the poller checks again whether other threads wait for a processor.
    private static let interval = 64

    init(_ session: OpaquePointer, _ polling: BusyPolling, thread: Int) {
        self.session = session
        self.polling = polling
        self.thread = thread
    }

    /// Reads a request, as `fuse_session_receive_buf` does. If the result is -EAGAIN, the caller must serve the postponed
    /// FORGET, unless another thread has already served it.
    mutating func receive(_ buffer: inout fuse_buf) -> CInt {
        if polling.isPollingAllowed(of: thread), let received = look(&buffer) { return received }
        if !polling.postponed.isEmpty { return -EAGAIN }
        (looked, atOnce, inTime) = (0, 0, 0)
        sharing.reset()
        let received = polling.sleep { fuse_session_receive_buf(session, &buffer) }
        guard received > 0 else { return received }
        let now = MonotonicClock.nanoseconds
        _ = pace.note(Self.header(of: buffer, received)?.pid ?? 0)
        if pace.shouldPoll(after: polling.pause(before: now)) { polling.want(at: now) }
        return received
    }

    /// Polls for a request for a limited time. Returns nil if no request came, or if polling would save no time now.
    private mutating func look(_ buffer: inout fuse_buf) -> CInt? {
        let start = MonotonicClock.nanoseconds
        if findsCrowd() {
            polling.endForOthers(at: start)
            return nil
        }
        let patience = inTime > Self.many ? BusyPolling.longestAmidMany : BusyPolling.longest
        let (received, tries, now) = polling.reading { look(&buffer, from: start, to: start + patience) }
        if received == -EAGAIN, !polling.postponed.isEmpty { return received }
        inTime = now > start + BusyPolling.longest ? 0 : inTime + 1
        let header = Self.header(of: buffer, received)
        let isOne = pace.note(header?.pid ?? 0)
        let isAwaited = isOne && isAwaited(header)
        // A client that waits for each answer makes one request at a time. If its request is found at the first poll, the
        // client probably shares the poller's processor. So the request is no sign of too many requests.
        if tries > 1 { atOnce /= 2 } else if !isAwaited { atOnce += 1 }
        if isAwaited, sharing.noteRequest(atFirstPoll: tries == 1, at: now) {
            _ = OwnProcess.changeProcessor()
        }
        // If this thread was delayed, another thread may have ended its polling. Then this thread must not end polling, because
        // it would end the polling of the next poller.
        if polling.isPolling(thread) {
            if !isOne || atOnce > Self.tooMany {
                polling.end(at: now)
            } else if now > start + patience + BusyPolling.longest {
                polling.endAfterDelay(from: start, to: now)
            } else if received == -EAGAIN {
                polling.end()
            }
        }
        return received == -EAGAIN ? nil : received
    }

    /// Returns whether other threads wait for a processor. This must be the case at two requests in a row.
    ///
    /// The kernel's own threads often wait for a processor for a moment, so one check is not enough.
    private mutating func findsCrowd() -> Bool {
        looked += 1
        guard looked >= Self.interval else { return false }
        let isOversubscribed = polling.isOversubscribed
        if isOversubscribed, looked == Self.interval { return false }
        looked = 0
        return isOversubscribed
    }

    /// Returns whether a client waits for the answer to this request, and for no other answer.
    ///
    /// Other requests may be found at the first poll although the client runs on another processor. Examples are the kernel's
    /// requests for read-ahead and write-back, and requests that came while a request without a client was being served.
    private mutating func isAwaited(_ header: cfuse_in_header?) -> Bool {
        guard let header else { return false }
        defer { servedNobody = header.pid == 0 }
        return header.pid != 0 && !Self.isOneOfSeveral(header.opcode) && !servedNobody
    }

    /// Returns whether one thread can cause several requests of this kind at the same time.
    private static func isOneOfSeveral(_ opcode: UInt32) -> Bool {
        opcode == UInt32(CFUSE_READ) || opcode == UInt32(CFUSE_WRITE)
    }

    /// Returns the header of a request. Its field `pid` is the thread that made the request, or 0 if no thread made it.
    private static func header(of buffer: fuse_buf, _ received: CInt) -> cfuse_in_header? {
        guard received >= MemoryLayout<cfuse_in_header>.size, let message = buffer.mem else { return nil }
        return message.load(as: cfuse_in_header.self)
    }

    private mutating func look(_ buffer: inout fuse_buf, from start: UInt64, to end: UInt64) -> (
        received: CInt, tries: Int, now: UInt64
    ) {
        var tries = 0
        while true {
            let received = fuse_session_receive_buf(session, &buffer)
            let now = MonotonicClock.nanoseconds
            tries += 1
            if received == -EAGAIN {
                let isOver = now > end
                let isDue = !polling.postponed.isEmpty && now > postponedAt + Self.longestPostponed
                if isOver || isDue { return (received, tries, now) }
                if now > start + Self.yielding, polling.postponed.isEmpty { sched_yield() }
            } else if polling.postponed.take(buffer, received) {
                postponedAt = now
                // Another thread may have ended the polling. In this case the next read could block.
                guard polling.isPolling(thread) else { return (-EAGAIN, tries, now) }
                // The poll that found the FORGET is not counted. If it was the first poll, the next poll is counted as the
                // first poll.
                tries = min(tries - 1, 1)
            } else {
                return (received, tries, now)
            }
        }
    }
}
