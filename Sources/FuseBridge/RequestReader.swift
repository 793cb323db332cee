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
    private var looked = 0
    /// For how many of the last requests it did not have to look: they were there. Others halve the number.
    private var atOnce = 0

    /// One thread that finds something each time does not suffice.
    private static let tooMany = 32
    /// Who else wants to run is looked at once for so many requests.
    private static let interval = 64

    init(_ session: OpaquePointer, _ polling: BusyPolling, thread: Int) {
        self.session = session
        self.polling = polling
        self.thread = thread
    }

    /// As `fuse_session_receive_buf`.
    mutating func receive(_ buffer: inout fuse_buf) -> CInt {
        if polling.isTurn(of: thread), let received = look(&buffer) { return received }
        (looked, atOnce) = (0, 0)
        let received = polling.sleep { fuse_session_receive_buf(session, &buffer) }
        let now = MonotonicClock.nanoseconds
        _ = pace.note(Self.caller(of: buffer, received))
        if pace.came(after: polling.pause(before: now)) { polling.want(at: now) }
        return received
    }

    /// Looks for a request for a bounded time; nil if there was none, or it is not worth while.
    private mutating func look(_ buffer: inout fuse_buf) -> CInt? {
        let start = MonotonicClock.nanoseconds
        looked += 1
        if looked % Self.interval == 0, polling.isCrowded {
            polling.endForOthers(at: start)
            return nil
        }
        let (received, tries, now) = polling.reading { look(&buffer, from: start) }
        atOnce = tries == 1 ? atOnce + 1 : atOnce / 2
        let isOne = pace.note(Self.caller(of: buffer, received))
        if !isOne || atOnce > Self.tooMany || now > start + 2 * BusyPolling.longest {
            polling.end(at: now)
        } else if received == -EAGAIN {
            polling.end()
        }
        return received == -EAGAIN ? nil : received
    }

    /// The thread that made the request; 0 if nobody did, or there is none.
    private static func caller(of buffer: fuse_buf, _ received: CInt) -> UInt32 {
        guard received >= MemoryLayout<cfuse_in_header>.size, let message = buffer.mem else { return 0 }
        return message.load(as: cfuse_in_header.self).pid
    }

    private func look(_ buffer: inout fuse_buf, from start: UInt64) -> (
        received: CInt, tries: Int, now: UInt64
    ) {
        var tries = 0
        while true {
            let received = fuse_session_receive_buf(session, &buffer)
            let now = MonotonicClock.nanoseconds
            tries += 1
            if received != -EAGAIN || now > start + BusyPolling.longest { return (received, tries, now) }
        }
    }
}
