// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem

/// Reads the requests of one thread: the thread sleeps until a request comes, or polls (see ``BusyPolling``).
struct RequestReader {
    private let session: OpaquePointer
    private let polling: BusyPolling
    private let thread: Int
    private var pace = RequestPace()
    private var sharing = ProcessorSharingDetector()
    private var looked = 0
    /// Counts the requests found at the first poll, except those with a client that waits for this answer only.
    ///
    /// Each request that needed more polls halves the count.
    private var atOnce = 0
    /// The number of requests in a row that came within the usual polling time.
    private var inTime = 0
    private var postponedAt: UInt64 = 0
    /// Whether the last request had no waiting client, like RELEASE and FORGET: the next may have come meanwhile.
    var servedNobody = false

    /// How long a FORGET waits for the next request, in nanoseconds.
    private static let longestPostponed: UInt64 = 20_000
    /// The time, in nanoseconds, after which the poller yields its processor between polls; the client may need it.
    private static let yielding: UInt64 = 20_000
    /// After so many requests in time, the next poll may take longer.
    ///
    /// The client may lose its processor for a moment. A kernel that frees removed files takes it for 150 µs in every 4 ms,
    /// for example. To stop polling costs more than to poll on.
    private static let many = 64
    /// If so many requests were there at the first poll, one thread is not enough.
    private static let tooMany = 32
    /// The number of requests between two checks for other runnable threads.
    private static let interval = 64

    init(_ session: OpaquePointer, _ polling: BusyPolling, thread: Int) {
        self.session = session
        self.polling = polling
        self.thread = thread
    }

    /// Reads a request, as `fuse_session_receive_buf` does; -EAGAIN means that a postponed FORGET, if any, is to be served.
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

    /// Polls for a request for a bounded time; returns nil if none came, or if polling is not worthwhile.
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
        // A client that waits for each answer makes one request at a time. So a find at the first poll tells about
        // processors, not about too many requests.
        if tries > 1 { atOnce /= 2 } else if !isAwaited { atOnce += 1 }
        if isAwaited, sharing.noteRequest(atFirstPoll: tries == 1, at: now) {
            _ = OwnProcess.changeProcessor()
        }
        // If another thread ended this polling as stuck meanwhile, this thread must not end the next poller's.
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

    /// Returns whether other threads want to run, as found at two requests in a row.
    ///
    /// The kernel's own threads often want to run for a moment, so one find does not count.
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
    /// Read-ahead and write-back of the kernel, and requests that came during a request without a client, are there at once
    /// wherever the client runs.
    private mutating func isAwaited(_ header: cfuse_in_header?) -> Bool {
        guard let header else { return false }
        defer { servedNobody = header.pid == 0 }
        return header.pid != 0 && !Self.isOneOfSeveral(header.opcode) && !servedNobody
    }

    /// Returns whether a single thread can cause several such requests at once.
    private static func isOneOfSeveral(_ opcode: UInt32) -> Bool {
        opcode == UInt32(CFUSE_READ) || opcode == UInt32(CFUSE_WRITE)
    }

    /// Returns the header; its `pid` is the thread that made the request, or 0 if no thread did.
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
                // Other threads may have ended the polling: then the next read would sleep.
                guard polling.isPolling(thread) else { return (-EAGAIN, tries, now) }
                // Counts the next request like this one: found at the first poll or not.
                tries = min(tries - 1, 1)
            } else {
                return (received, tries, now)
            }
        }
    }
}
