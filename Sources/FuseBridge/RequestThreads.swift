// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// Counts the threads that serve requests. Starts more threads when all are blocked.
///
/// Only a file system below can block a request, so a few threads usually suffice. If blocked requests occupy all threads,
/// another thread starts and serves the other requests.
final class RequestThreads: Sendable {
    /// If all threads are busy and no request has ended for this time in nanoseconds, one more thread starts.
    private static let patience: UInt64 = 100_000_000
    private static let most = 512

    private let size: Int
    private let timers: Timers
    private let start: @Sendable (Int, RequestThreads) -> Bool
    private let total: Atomic<Int>
    private let serving = Atomic<Int>(0)
    private let lastNumber: Atomic<Int>
    private let lastEnd: Atomic<UInt64>
    private let isWatched = Atomic<Bool>(false)

    /// Counts `size` threads, which the caller starts itself.
    ///
    /// `start` starts one more thread with the given number, and returns whether the thread was started.
    init(of size: Int, timers: Timers, start: @escaping @Sendable (Int, RequestThreads) -> Bool) {
        self.size = size
        self.timers = timers
        self.start = start
        total = Atomic(size)
        lastNumber = Atomic(size)
        lastEnd = Atomic(MonotonicClock.nanoseconds)
    }

    func requestBegan() {
        // This addition is sequentially consistent with the loads in `look`. Either `look` finds that all threads are busy, or
        // this thread finds that no check is scheduled, and schedules one.
        let busy = serving.add(1, ordering: .sequentiallyConsistent).newValue
        if busy >= total.load(ordering: .relaxed) { watch() }
    }

    /// Returns whether the thread should continue. An additional thread ends when enough other threads are idle.
    func requestEnded(by thread: Int, at now: UInt64) -> Bool {
        let busy = serving.subtract(1, ordering: .relaxed).newValue
        lastEnd.store(now, ordering: .relaxed)
        guard thread > size, total.load(ordering: .relaxed) - busy > size else { return true }
        total.subtract(1, ordering: .relaxed)
        return false
    }

    /// Notes that a thread cannot serve requests. Returns true if it is an additional thread, because the other threads then
    /// continue without it. The next additional thread may be able to serve requests.
    func canServeWithout(_ thread: Int) -> Bool {
        guard thread > size else { return false }
        total.subtract(1, ordering: .relaxed)
        return true
    }

    private func watch() {
        // When several threads are busy, a check is nearly always scheduled already. Then a load shows this, and the exchange,
        // which would disturb other processors, is not made.
        guard !isWatched.load(ordering: .sequentiallyConsistent),
            !isWatched.exchange(true, ordering: .sequentiallyConsistent)
        else { return }
        timers.schedule(at: MonotonicClock.nanoseconds + Self.patience) { [self] in look() }
    }

    private func look() {
        isWatched.store(false, ordering: .sequentiallyConsistent)
        let busy = serving.load(ordering: .sequentiallyConsistent)
        guard busy >= total.load(ordering: .relaxed) else { return }
        let isStuck = MonotonicClock.nanoseconds >= lastEnd.load(ordering: .relaxed) + Self.patience
        if isStuck, total.load(ordering: .relaxed) < Self.most {
            total.add(1, ordering: .relaxed)
            let number = lastNumber.add(1, ordering: .relaxed).newValue
            if !start(number, self) { total.subtract(1, ordering: .relaxed) }
        }
        watch()
    }
}
