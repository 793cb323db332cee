// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem

/// How one thread comes by its requests: it sleeps until there is one, or looks for it (see ``BusyPolling``).
///
/// Who looks puts a FORGET off until it has served the next request: nobody waits for its answer, but whoever makes that next
/// request would wait until the file is gone, and while the client goes on with that answer there is time.
struct RequestReader: ~Copyable {
    private let session: OpaquePointer
    private let polling: BusyPolling
    private let thread: Int
    private var pace = RequestPace()
    private var sharing = SharedProcessor()
    private var looked = 0
    /// For how many of the last requests it did not have to look: they were there. Others halve the number.
    private var atOnce = 0
    /// A copy of the FORGET that waits, and when it came; 0 if none does. None does while the thread sleeps or naps.
    private var forget = fuse_buf()
    private var postponed: UInt64 = 0

    /// `struct fuse_forget_in` is a number of lookups.
    private static let forgetSize = MemoryLayout<cfuse_in_header>.size + MemoryLayout<UInt64>.size
    /// For how long one waits for the next request.
    private static let longestPostponed: UInt64 = 20_000
    /// One thread that finds something each time does not suffice.
    private static let tooMany = 32
    /// Who else wants to run is looked at once for so many requests.
    private static let interval = 64

    init(_ session: OpaquePointer, _ polling: BusyPolling, thread: Int) {
        self.session = session
        self.polling = polling
        self.thread = thread
        forget.mem = malloc(Self.forgetSize)
    }

    deinit { free(forget.mem) }

    /// As `fuse_session_receive_buf`.
    mutating func receive(_ buffer: inout fuse_buf) -> CInt {
        // To look was interrupted.
        if postponed != 0 { return takePostponed(&buffer) }
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
        let caller = Self.caller(of: buffer, received)
        let isOne = pace.note(caller)
        atOnce = tries == 1 ? atOnce + 1 : atOnce / 2
        if isOne, caller != 0 { followAdvice(sharing.found(atFirstLook: tries == 1, at: now)) }
        if !isOne || atOnce > Self.tooMany || now > start + 2 * BusyPolling.longest {
            polling.end(at: now)
        } else if received == -EAGAIN {
            polling.end()
        }
        return received == -EAGAIN ? nil : received
    }

    private mutating func followAdvice(_ advice: SharedProcessor.Advice) {
        switch advice {
        case .stay: break
        case .leave: if OwnProcess.changeProcessor() { atOnce = 0 }
        case .rest(let moment): polling.end(until: moment)
        }
    }

    /// The thread that made the request; 0 if nobody did, or there is none.
    private static func caller(of buffer: fuse_buf, _ received: CInt) -> UInt32 {
        guard received >= MemoryLayout<cfuse_in_header>.size, let message = buffer.mem else { return 0 }
        return message.load(as: cfuse_in_header.self).pid
    }

    private mutating func look(_ buffer: inout fuse_buf, from start: UInt64) -> (
        received: CInt, tries: Int, now: UInt64
    ) {
        var tries = 0
        while true {
            let received = fuse_session_receive_buf(session, &buffer)
            let now = MonotonicClock.nanoseconds
            tries += 1
            if received == -EAGAIN {
                if postponed != 0, now > postponed + Self.longestPostponed {
                    return (takePostponed(&buffer), tries, now)
                }
                if now > start + BusyPolling.longest { return (received, tries, now) }
            } else if postpone(buffer, received, at: now) {
                tries = 0
            } else {
                return (received, tries, now)
            }
        }
    }

    /// Returns false if it is no FORGET, or there is one already.
    private mutating func postpone(_ buffer: borrowing fuse_buf, _ received: CInt, at now: UInt64) -> Bool {
        guard postponed == 0, Int(received) == Self.forgetSize, let copy = forget.mem,
            let message = buffer.mem,
            message.load(as: cfuse_in_header.self).opcode == UInt32(CFUSE_FORGET)
        else { return false }
        copy.copyMemory(from: message, byteCount: Self.forgetSize)
        forget.size = Self.forgetSize
        postponed = now
        return true
    }

    /// Gives out what was put off as if it had just been received.
    private mutating func takePostponed(_ buffer: inout fuse_buf) -> CInt {
        buffer.mem?.copyMemory(from: forget.mem, byteCount: Self.forgetSize)
        buffer.size = Self.forgetSize
        postponed = 0
        return CInt(Self.forgetSize)
    }

    /// Serves what was put off, if anything was. To be called when the request that ``receive(_:)`` gave is served.
    mutating func servePostponed() {
        guard postponed != 0 else { return }
        postponed = 0
        fuse_session_process_buf(session, &forget)
    }
}
