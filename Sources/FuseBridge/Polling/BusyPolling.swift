// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem
import Synchronization

/// Has one of the threads that serve look for the next request, rather than sleep until it comes, as long as requests come
/// one soon after the other.
///
/// To wake a thread on an idle processor takes longer than most requests do, and whoever makes the request pays for the
/// interrupt besides. The kernel wakes who sleeps in `read(2)` even if somebody else looks, so the other threads stay away
/// meanwhile: they nap until it ends, and look after each nap whether they are needed before. A nap's end takes a processor from
/// whoever has it for a moment, and may have the kernel put the client onto the one of the thread that looks; so each is twice
/// as long as the one before.
///
/// Nothing but speed depends on it. A thread looks for ``longest`` and no more, or rarely for ``longestAmidMany``, and lets others
/// have its processor between two looks when that takes long; when it has been with one request, or without the processor, for
/// ``longestAlone``, the others serve as they would without it, from the end of their naps: that is after as long as all went
/// well before, and ``longestNap`` at most.
/// `O_NONBLOCK` belongs to the descriptor, hence to all threads, and each of them bears to find it otherwise than it expects.
///
/// Who looks takes the processor from whoever else could run. So nobody does where there is only one, nor for a while after
/// threads were seen to wait for one, or the poller had to; not where several threads make requests, which keep each other's
/// processors awake; and not where requests take so long that to be woken is little beside it.
final class BusyPolling: Sendable {
    /// For how long a thread looks before it sleeps, and amid very many requests that came sooner. Times are in nanoseconds of
    /// ``MonotonicClock``.
    static let (longest, longestAmidMany): (UInt64, UInt64) = (100_000, 250_000)
    /// For how long requests may wait for the only thread that reads them, besides a nap. A listing takes less.
    private static let longestAlone: UInt64 = 500_000
    private static let (shortestNap, longestNap): (UInt64, UInt64) = (1_000_000, 8_000_000)
    /// For how long nobody polls after threads were seen to wait for a processor, or a request took long; and after one thread was
    /// not enough. The latter also after the one that looks was kept, less the time for which all went well before.
    private static let shortPause: UInt64 = 1_000_000
    private static let pause: UInt64 = 5_000_000

    private let descriptor: CInt
    private let load: LoadGauge?
    private let isWanted = Atomic<Bool>(false)
    /// The thread that looks, or serves what it has found; 0 if there is none.
    private let poller = Atomic<Int>(0)
    /// How many threads look, or sleep in `read`.
    private let readers = Atomic<Int>(0)
    /// When a request was served last, and since when the poller serves one; 0 if it does not.
    private let lastEnd = Atomic<UInt64>(0)
    private let servingSince = Atomic<UInt64>(0)
    private let notBefore = Atomic<UInt64>(0)
    private let pollingSince = Atomic<UInt64>(0)
    /// Raised when it ends, if somebody naps: wakes one of them, which wakes the next.
    private let ending: WakeEvent
    private let nappers = Atomic<Int>(0)
    let postponed = PostponedForget()

    init(of session: OpaquePointer) throws(Errno) {
        descriptor = fuse_session_fd(session)
        load = OwnProcess.processors > 1 ? LoadGauge() : nil
        ending = try WakeEvent()
    }

    /// Whether more threads want to run than can.
    var isOversubscribed: Bool { load?.isOversubscribed ?? true }

    /// Requests come quickly: one thread is to look for them.
    func want(at now: UInt64) {
        guard load != nil, now >= notBefore.load(ordering: .relaxed) else { return }
        guard !isOversubscribed else { return wait(until: now + Self.shortPause) }
        // Who began while another thread ended it is not to go on as if the descriptor were set for it.
        if !isWanted.load(ordering: .relaxed) { poller.store(0, ordering: .relaxed) }
        isWanted.store(true, ordering: .relaxed)
    }

    /// Whether a thread is to look for requests; naps while another one does.
    func isPollingAllowed(of thread: Int) -> Bool {
        var nap = Self.shortestNap
        while isWanted.load(ordering: .relaxed) {
            if poller.load(ordering: .relaxed) == thread || begin(thread) { return true }
            rest(until: MonotonicClock.nanoseconds + nap)
            endIfStuck(at: MonotonicClock.nanoseconds)
            nap = min(2 * nap, Self.longestNap)
        }
        return false
    }

    private func rest(until moment: UInt64) {
        // In one order with what `end` does: either it sees that somebody naps, or this thread that it has ended.
        nappers.add(1, ordering: .sequentiallyConsistent)
        if isWanted.load(ordering: .sequentiallyConsistent) { ending.wait(until: moment) }
        let others = nappers.subtract(1, ordering: .relaxed).newValue
        if others > 0, !isWanted.load(ordering: .relaxed) { ending.raise() }
    }

    /// In one order with the FORGETs that are put off: who ends the polling of a thread that has just put one off finds it, or
    /// that thread finds that it has ended.
    func isPolling(_ thread: Int) -> Bool { poller.load(ordering: .sequentiallyConsistent) == thread }

    /// The thread serves no more. It may end the polling of another one that has just put off a FORGET and sleeps then, so it serves
    /// that: all others that end the polling go on to read, and find it.
    func leave(_ thread: Int, _ session: OpaquePointer) {
        if isPolling(thread) { end() }
        postponed.serve(session)
    }

    private func begin(_ thread: Int) -> Bool {
        // Those that sleep would be woken by each request. They come here by the next ones.
        guard readers.load(ordering: .relaxed) == 0,
            poller.compareExchange(expected: 0, desired: thread, ordering: .acquiringAndReleasing).exchanged
        else { return false }
        pollingSince.store(MonotonicClock.nanoseconds, ordering: .relaxed)
        setBlocking(false)
        return true
    }

    private func endIfStuck(at now: UInt64) {
        guard isWanted.load(ordering: .relaxed) else { return }
        let start = servingSince.load(ordering: .relaxed)
        let since = start == 0 ? lastEnd.load(ordering: .relaxed) : start
        if now > since + Self.longestAlone { endAfterDelay(from: since, to: now) }
    }

    /// All threads sleep in `read` again, when they have served what they serve.
    func end() {
        // First: nobody begins while there is a poller. Who comes late ends it for the next one too, but altogether.
        setBlocking(true)
        isWanted.store(false, ordering: .sequentiallyConsistent)
        poller.store(0, ordering: .sequentiallyConsistent)
        servingSince.store(0, ordering: .relaxed)
        if nappers.load(ordering: .sequentiallyConsistent) > 0 { ending.raise() }
    }

    /// Ends for a while: more threads are needed.
    func end(at now: UInt64) { end(until: now + Self.pause) }

    /// Ends for a while after one request kept the thread, or somebody else its processor.
    func endAfterDelay(from start: UInt64, to now: UInt64) { end(until: now + pause(afterDelayFrom: start)) }

    /// One delay among very many requests is no sign that there will be more: the longer all went well, the shorter.
    private func pause(afterDelayFrom start: UInt64) -> UInt64 {
        let since = pollingSince.load(ordering: .relaxed)
        return Self.pause - min(Self.pause, start > since ? start - since : 0)
    }

    private func end(until moment: UInt64) {
        wait(until: moment)
        end()
    }

    /// Ends for a moment, since others find no processor.
    func endForOthers(at now: UInt64) { end(until: now + Self.shortPause) }

    private func wait(until moment: UInt64) { notBefore.max(moment, ordering: .relaxed) }

    private func setBlocking(_ blocks: Bool) {
        let flags = fcntl(descriptor, F_GETFL)
        _ = fcntl(descriptor, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK)
    }

    /// Reads while others know that somebody does.
    func reading<Result>(_ read: () -> Result) -> Result {
        readers.add(1, ordering: .relaxed)
        defer { readers.subtract(1, ordering: .relaxed) }
        return read()
    }

    /// Sleeps until a request comes, or finds that it cannot, and a FORGET to be served that was put off.
    func sleep(_ read: () -> CInt) -> CInt {
        reading {
            while true {
                let received = read()
                guard received == -EAGAIN else { return received }
                // Somebody has begun as this thread came, or two ended it at once: none is to go on as if it were the only one.
                end()
                if !postponed.isEmpty { return received }
            }
        }
    }

    /// For how long nothing was served when a request came.
    func pause(before now: UInt64) -> UInt64 {
        let end = lastEnd.load(ordering: .relaxed)
        return now > end ? now - end : 0
    }

    func requestBegan(by thread: Int, at now: UInt64) {
        if poller.load(ordering: .relaxed) == thread { servingSince.store(now, ordering: .relaxed) }
    }

    func requestServed(by thread: Int, from start: UInt64, to now: UInt64) {
        lastEnd.store(now, ordering: .relaxed)
        let wasPoller = poller.load(ordering: .relaxed) == thread
        if wasPoller { servingSince.store(0, ordering: .relaxed) }
        guard now > start + Self.longestAlone else { return }
        wait(until: now + (wasPoller ? pause(afterDelayFrom: start) : Self.shortPause))
        if wasPoller { end() }
    }
}
