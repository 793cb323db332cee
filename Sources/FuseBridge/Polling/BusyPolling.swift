// SPDX-License-Identifier: Apache-2.0
import CFuse
import Glibc
import LinuxSystem
import Synchronization

/// Makes one of the request threads poll for the next request while requests come in quick succession. Without polling, the
/// thread would sleep until the next request.
///
/// Waking a thread on an idle processor takes longer than serving most requests. The interrupt for waking also delays the
/// client. So one thread, the poller, does not sleep. If other threads slept in `read(2)` meanwhile, the kernel would wake them
/// for a request. So the other threads do not read while there is a poller. They nap until polling ends, and check after each
/// nap whether they are needed earlier.
///
/// The end of a nap briefly takes a processor from another thread. It may also make the kernel move the client to the processor
/// of the poller. To make this rare, each nap is twice as long as the nap before.
///
/// Polling affects only speed. It has these limits:
///
/// - The poller polls for at most ``longest``, or rarely for ``longestAmidMany``.
/// - If a poll takes long, the poller lets other threads use its processor between two reads.
/// - If the poller is busy with one request for ``longestAlone``, or has no processor for that time, the other threads read
///   again.
/// - The other threads notice this only when a nap ends. A nap lasts at most ``longestNap``, and at most as long as polling has
///   lasted.
///
/// `O_NONBLOCK` belongs to the open descriptor, which all threads share. So a read may block, or not block, although the thread
/// expects the opposite. Each thread must handle that.
///
/// The poller takes a processor from other threads that could run. So no thread polls:
///
/// - on a machine with one processor;
/// - for a while after other threads, or the poller, had to wait for a processor;
/// - while several threads make requests, because a processor that is often used is woken quickly;
/// - while requests take so long that the time for waking a thread is unimportant.
final class BusyPolling: Sendable {
    /// How long a thread polls before it sleeps. The longer time is used after very many requests that came in time.
    ///
    /// All times in this class are in nanoseconds of ``MonotonicClock``.
    static let (longest, longestAmidMany): (UInt64, UInt64) = (100_000, 250_000)
    /// How long the poller may be busy before other threads read again; they notice this only at the end of a nap. Listing a
    /// directory takes less time.
    private static let longestAlone: UInt64 = 500_000
    private static let (shortestNap, longestNap): (UInt64, UInt64) = (1_000_000, 8_000_000)
    /// How long no thread polls after polling has ended.
    ///
    /// The short pause is used when other threads have to wait for a processor, and after a long request. The long pause is
    /// used when one thread was not enough for the requests. The long pause is also used after a delay of the poller, but the
    /// time of undisturbed polling before the delay is subtracted.
    private static let shortPause: UInt64 = 1_000_000
    private static let pause: UInt64 = 5_000_000

    private let descriptor: CInt
    private let load: LoadGauge?
    private let isWanted = Atomic<Bool>(false)
    /// The number of the thread that polls, or serves a request that it has found by polling; 0 if there is none.
    private let poller = Atomic<Int>(0)
    /// The number of threads that poll, or sleep in `read`.
    private let readers = Atomic<Int>(0)
    /// `lastEnd` is the end of the last request. `servingSince` is the start of the request that the poller serves; 0 if it
    /// serves none.
    private let lastEnd = Atomic<UInt64>(0)
    private let servingSince = Atomic<UInt64>(0)
    private let notBefore = Atomic<UInt64>(0)
    private let pollingSince = Atomic<UInt64>(0)
    /// Raised when polling ends while threads are napping. It wakes one of these threads, and each woken thread wakes the next
    /// thread.
    private let ending: WakeEvent
    private let nappers = Atomic<Int>(0)
    let postponed = PostponedForget()

    init(of session: OpaquePointer) throws(Errno) {
        descriptor = fuse_session_fd(session)
        load = OwnProcess.processors > 1 ? LoadGauge() : nil
        ending = try WakeEvent()
    }

    /// Whether more threads can run than there are processors.
    var isOversubscribed: Bool { load?.isOversubscribed ?? true }

    /// Allows polling, because requests come in quick succession.
    func want(at now: UInt64) {
        guard load != nil, now >= notBefore.load(ordering: .relaxed) else { return }
        guard !isOversubscribed else { return wait(until: now + Self.shortPause) }
        // A thread may have become the poller while another thread ended polling. Such a thread must not poll, because reads of
        // the descriptor may block now.
        if !isWanted.load(ordering: .relaxed) { poller.store(0, ordering: .relaxed) }
        isWanted.store(true, ordering: .relaxed)
    }

    /// Returns whether the thread may poll for requests. If another thread polls, first naps until polling ends or this thread
    /// is needed.
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
        // This addition is sequentially consistent with the loads and stores in `end`. Either `end` finds that this thread naps
        // and wakes it, or this thread finds that polling has ended.
        nappers.add(1, ordering: .sequentiallyConsistent)
        if isWanted.load(ordering: .sequentiallyConsistent) { ending.wait(until: moment) }
        let others = nappers.subtract(1, ordering: .relaxed).newValue
        if others > 0, !isWanted.load(ordering: .relaxed) { ending.raise() }
    }

    /// Returns whether the thread is the poller. The load is sequentially consistent with the accesses of ``PostponedForget``.
    ///
    /// This excludes that a FORGET is left unserved. Either the poller finds that polling has ended, or the thread that ends
    /// polling finds the FORGET that the poller has just postponed.
    func isPolling(_ thread: Int) -> Bool { poller.load(ordering: .sequentiallyConsistent) == thread }

    /// Ends the service of a thread.
    ///
    /// The thread may thereby end the polling of another thread. That thread may have postponed a FORGET, and would then sleep
    /// without serving the FORGET. So this function serves the FORGET. The other functions that end polling need not do this,
    /// because their threads read afterwards, and find the FORGET then.
    func leave(_ thread: Int, _ session: OpaquePointer) {
        if isPolling(thread) { end() }
        postponed.serve(session)
    }

    private func begin(_ thread: Int) -> Bool {
        // If threads sleep in `read`, the kernel wakes one of them for each request. So polling begins only when no thread
        // reads. Each sleeping thread calls this function after its next request.
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

    /// Ends polling. All threads sleep in `read` again after their current request.
    func end() {
        // The descriptor becomes blocking before `poller` is cleared. No thread begins to poll before `poller` is cleared, so
        // no thread makes the descriptor non-blocking in between. If this call comes late, it ends the polling of the next
        // poller. This is harmless, because it ends that polling completely.
        setBlocking(true)
        isWanted.store(false, ordering: .sequentiallyConsistent)
        poller.store(0, ordering: .sequentiallyConsistent)
        servingSince.store(0, ordering: .relaxed)
        if nappers.load(ordering: .sequentiallyConsistent) > 0 { ending.raise() }
    }

    /// Ends polling for the long pause, because more than one thread is needed.
    func end(at now: UInt64) { end(until: now + Self.pause) }

    /// Ends polling after a delay: a request took long, or another thread used the poller's processor. Then no thread polls for
    /// a while.
    func endAfterDelay(from start: UInt64, to now: UInt64) { end(until: now + pause(afterDelayFrom: start)) }

    /// Returns for how long no thread polls after a delay. The longer polling was undisturbed before the delay, the shorter is
    /// this pause.
    ///
    /// If polling was undisturbed for long, one delay does not mean that more delays will follow.
    private func pause(afterDelayFrom start: UInt64) -> UInt64 {
        let since = pollingSince.load(ordering: .relaxed)
        return Self.pause - min(Self.pause, start > since ? start - since : 0)
    }

    private func end(until moment: UInt64) {
        wait(until: moment)
        end()
    }

    /// Ends polling for the short pause, because other threads wait for a processor.
    func endForOthers(at now: UInt64) { end(until: now + Self.shortPause) }

    private func wait(until moment: UInt64) { notBefore.max(moment, ordering: .relaxed) }

    private func setBlocking(_ blocks: Bool) {
        let flags = fcntl(descriptor, F_GETFL)
        _ = fcntl(descriptor, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK)
    }

    /// Runs `read`. Meanwhile, the thread counts as a reader.
    func reading<Result>(_ read: () -> Result) -> Result {
        readers.add(1, ordering: .relaxed)
        defer { readers.subtract(1, ordering: .relaxed) }
        return read()
    }

    /// Sleeps in `read` until a request comes. Returns -EAGAIN before a request only if a postponed FORGET must be served.
    func sleep(_ read: () -> CInt) -> CInt {
        reading {
            while true {
                let received = read()
                guard received == -EAGAIN else { return received }
                // `read` has not blocked. Either another thread began to poll when this thread called `read`, or two threads
                // ended polling at the same time. This thread is not the poller, so it must not continue with reads that do not
                // block. It ends polling.
                end()
                if !postponed.isEmpty { return received }
            }
        }
    }

    /// Returns for how long no request was being served before a request came at `now`, in nanoseconds.
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
