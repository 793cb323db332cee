// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem

/// How one thread comes by its requests: it sleeps until there is one, or looks for it (see ``BusyPolling``).
struct RequestReader {
    private let session: OpaquePointer
    private let polling: BusyPolling
    private let thread: Int
    private var pace = RequestPace()
    private var sharing = ProcessorSharingDetector()
    private var looked = 0
    /// How many of the last requests were there at the first look though nobody waits for each. One that had to be looked for
    /// halves the number.
    private var atOnce = 0
    /// How many requests in a row it had to look for no longer than usual.
    private var inTime = 0
    private var postponedAt: UInt64 = 0
    /// Whether the last thing that was served was nobody's, as RELEASE and FORGET are: the next request may have come meanwhile.
    var servedNobody = false

    /// For how long a FORGET waits for the next request, in nanoseconds.
    private static let longestPostponed: UInt64 = 20_000
    /// After how long it lets others have the processor between two looks; who makes requests may be one of them.
    private static let yielding: UInt64 = 20_000
    /// After so many in time it looks longer for one: who made them may be kept from its processor, as for 150 µs in each four
    /// milliseconds by a kernel that gives back what was removed, and to stop costs more than to look on.
    private static let many = 64
    /// One thread does not suffice if so many were there.
    private static let tooMany = 32
    /// Who else wants to run is looked at once for so many requests.
    private static let interval = 64

    init(_ session: OpaquePointer, _ polling: BusyPolling, thread: Int) {
        self.session = session
        self.polling = polling
        self.thread = thread
    }

    /// As `fuse_session_receive_buf`. -EAGAIN tells that a FORGET is to be served that was put off, if there is one.
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

    /// Looks for a request for a bounded time; nil if there was none, or it is not worth while.
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
        // Who waits for each answer makes one request at a time: that it was there tells of processors, not of too many requests.
        if tries > 1 { atOnce /= 2 } else if !isAwaited { atOnce += 1 }
        if isAwaited, sharing.noteRequest(atFirstPoll: tries == 1, at: now) {
            _ = OwnProcess.changeProcessor()
        }
        // Who was taken to be stuck meanwhile is not to end it for the next one.
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

    /// Whether others want to run. The kernel's own threads often do for a moment: only who finds it so for two requests in a row
    /// makes room.
    private mutating func findsCrowd() -> Bool {
        looked += 1
        guard looked >= Self.interval else { return false }
        let isOversubscribed = polling.isOversubscribed
        if isOversubscribed, looked == Self.interval { return false }
        looked = 0
        return isOversubscribed
    }

    /// Whether somebody waits for the answer, and for no other one. What the kernel reads ahead, or has others write,
    /// is there already wherever its client runs, as is what came while nobody's request was served.
    private mutating func isAwaited(_ header: cfuse_in_header?) -> Bool {
        guard let header else { return false }
        defer { servedNobody = header.pid == 0 }
        return header.pid != 0 && !Self.isOneOfSeveral(header.opcode) && !servedNobody
    }

    /// Whether a single thread may have the kernel make several of these at once.
    private static func isOneOfSeveral(_ opcode: UInt32) -> Bool {
        opcode == UInt32(CFUSE_READ) || opcode == UInt32(CFUSE_WRITE)
    }

    /// Its `pid` is the thread that made the request; 0 if nobody did.
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
                // Others may have ended the polling: then the next look would sleep.
                guard polling.isPolling(thread) else { return (-EAGAIN, tries, now) }
                // The next request is one that had to be looked for, as this one was.
                tries = min(tries - 1, 1)
            } else {
                return (received, tries, now)
            }
        }
    }
}
