// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem
import Synchronization

/// Makes one of the request threads poll for the next request, instead of sleeping until it comes, while requests come in
/// quick succession.
///
/// It takes longer to wake a thread on an idle processor than to serve most requests, and the interrupt delays the client
/// too. The kernel wakes a thread that sleeps in `read(2)` even if another thread polls. So the other threads do not read
/// meanwhile: they nap until polling ends, and check after each nap whether they are needed earlier. The end of a nap briefly
/// takes a processor from another thread. It may also make the kernel move the client to the processor of the poller. So each
/// nap is twice as long as the nap before.
///
/// Only speed depends on polling. Its limits:
///
/// - The poller polls for at most ``longest``, or rarely for ``longestAmidMany``.
/// - It yields its processor between two polls when polling takes long.
/// - If the poller is with one request, or without a processor, for ``longestAlone``, the other threads serve as they do
///   without it.
/// - They find this at the end of a nap. It lasts at most as long as polling did without a delay, and at most ``longestNap``.
///
/// `O_NONBLOCK` belongs to the descriptor, hence to all threads, so each thread must handle an unexpected state of it.
///
/// The poller takes a processor from other runnable threads. So no thread polls:
///
/// - on a machine with one processor;
/// - for a while after threads, or the poller, had to wait for a processor;
/// - while several threads make requests, because they keep each other's processors awake;
/// - while requests take so long that the time of a wake-up matters little.
final class BusyPolling: Sendable {
    /// How long a thread polls before it sleeps, and how long after very many requests that came in time.
    ///
    /// In nanoseconds of ``MonotonicClock``, like all times here.
    static let (longest, longestAmidMany): (UInt64, UInt64) = (100_000, 250_000)
    /// How long requests may wait for the only reader, besides a nap. A listing of a directory takes less.
    private static let longestAlone: UInt64 = 500_000
    private static let (shortestNap, longestNap): (UInt64, UInt64) = (1_000_000, 8_000_000)
    /// How long no thread polls after a pause has begun.
    ///
    /// The short pause follows a wait for a processor, or a long request. The long pause follows when one thread was not
    /// enough. It also follows a delay of the poller, less the time that passed without a delay.
    private static let shortPause: UInt64 = 1_000_000
    private static let pause: UInt64 = 5_000_000

    private let descriptor: CInt
    private let load: LoadGauge?
    private let isWanted = Atomic<Bool>(false)
    /// The thread that polls, or serves a request that it found; 0 if there is none.
    private let poller = Atomic<Int>(0)
    /// The number of threads that poll, or sleep in `read`.
    private let readers = Atomic<Int>(0)
    /// The end of the last request, and the start of the poller's current request; 0 if it serves none.
    private let lastEnd = Atomic<UInt64>(0)
    private let servingSince = Atomic<UInt64>(0)
    private let notBefore = Atomic<UInt64>(0)
    private let pollingSince = Atomic<UInt64>(0)
    /// Raised when polling ends, if threads nap: it wakes one of them, which wakes the next.
    private let ending: WakeEvent
    private let nappers = Atomic<Int>(0)
    let postponed = PostponedForget()

    init(of session: OpaquePointer) throws(Errno) {
        descriptor = fuse_session_fd(session)
        load = OwnProcess.processors > 1 ? LoadGauge() : nil
        ending = try WakeEvent()
    }

    /// Whether more threads are runnable than there are processors.
    var isOversubscribed: Bool { load?.isOversubscribed ?? true }

    /// Starts polling, because requests come in quick succession.
    func want(at now: UInt64) {
        guard load != nil, now >= notBefore.load(ordering: .relaxed) else { return }
        guard !isOversubscribed else { return wait(until: now + Self.shortPause) }
        // A thread that began while another thread ended polling must not rely on a non-blocking descriptor.
        if !isWanted.load(ordering: .relaxed) { poller.store(0, ordering: .relaxed) }
        isWanted.store(true, ordering: .relaxed)
    }

    /// Returns whether `thread` is to poll for requests; naps while another thread polls.
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
        // Sequentially consistent with `end`: either `end` sees the napper, or this thread sees the end.
        nappers.add(1, ordering: .sequentiallyConsistent)
        if isWanted.load(ordering: .sequentiallyConsistent) { ending.wait(until: moment) }
        let others = nappers.subtract(1, ordering: .relaxed).newValue
        if others > 0, !isWanted.load(ordering: .relaxed) { ending.raise() }
    }

    /// Returns whether `thread` is the poller, sequentially consistent with ``PostponedForget``.
    ///
    /// Either the thread that ends polling finds the FORGET that the poller has just postponed, or the poller finds that
    /// polling has ended.
    func isPolling(_ thread: Int) -> Bool { poller.load(ordering: .sequentiallyConsistent) == thread }

    /// Ends the service of a thread.
    ///
    /// It may end the polling of another thread that has just postponed a FORGET and then sleeps, so it serves that FORGET.
    /// All other threads that end polling read afterwards, and find the FORGET.
    func leave(_ thread: Int, _ session: OpaquePointer) {
        if isPolling(thread) { end() }
        postponed.serve(session)
    }

    private func begin(_ thread: Int) -> Bool {
        // Each request would wake the threads that sleep in `read`. They come here after their next request.
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

    /// Ends polling: all threads sleep in `read` again, after their current request.
    func end() {
        // First, because no thread begins while there is a poller. A late caller also ends the polling of the next poller,
        // but completely.
        setBlocking(true)
        isWanted.store(false, ordering: .sequentiallyConsistent)
        poller.store(0, ordering: .sequentiallyConsistent)
        servingSince.store(0, ordering: .relaxed)
        if nappers.load(ordering: .sequentiallyConsistent) > 0 { ending.raise() }
    }

    /// Ends polling for a while, because more threads are needed.
    func end(at now: UInt64) { end(until: now + Self.pause) }

    /// Ends polling for a while after a delay: a long request, or a processor that another thread used.
    func endAfterDelay(from start: UInt64, to now: UInt64) { end(until: now + pause(afterDelayFrom: start)) }

    /// Returns how long to pause after a delay: the longer there was no delay before, the shorter.
    ///
    /// One delay among very many requests does not predict more delays.
    private func pause(afterDelayFrom start: UInt64) -> UInt64 {
        let since = pollingSince.load(ordering: .relaxed)
        return Self.pause - min(Self.pause, start > since ? start - since : 0)
    }

    private func end(until moment: UInt64) {
        wait(until: moment)
        end()
    }

    /// Ends polling for a moment, since other threads wait for a processor.
    func endForOthers(at now: UInt64) { end(until: now + Self.shortPause) }

    private func wait(until moment: UInt64) { notBefore.max(moment, ordering: .relaxed) }

    private func setBlocking(_ blocks: Bool) {
        let flags = fcntl(descriptor, F_GETFL)
        _ = fcntl(descriptor, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK)
    }

    /// Runs `read`, and counts the thread as a reader meanwhile.
    func reading<Result>(_ read: () -> Result) -> Result {
        readers.add(1, ordering: .relaxed)
        defer { readers.subtract(1, ordering: .relaxed) }
        return read()
    }

    /// Sleeps until a request comes, or until `read` returns EAGAIN while a postponed FORGET is to be served.
    func sleep(_ read: () -> CInt) -> CInt {
        reading {
            while true {
                let received = read()
                guard received == -EAGAIN else { return received }
                // Another thread began polling as this thread came, or two threads ended it at once. This thread must not act
                // as the only reader.
                end()
                if !postponed.isEmpty { return received }
            }
        }
    }

    /// Returns for how long no request was served when a request came at `now`.
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
