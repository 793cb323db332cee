// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The threads that serve requests.
///
/// A few suffice, since requests do not block, except in a file system below. When such requests block all threads, more
/// threads start, so that other requests do not wait.
final class RequestThreads: Sendable {
    /// How long no request must have ended before one more thread starts, in nanoseconds.
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

    /// Creates the record of `size` threads that the caller starts.
    ///
    /// `start` starts a further thread by its number, and returns whether it could.
    init(of size: Int, timers: Timers, start: @escaping @Sendable (Int, RequestThreads) -> Bool) {
        self.size = size
        self.timers = timers
        self.start = start
        total = Atomic(size)
        lastNumber = Atomic(size)
        lastEnd = Atomic(MonotonicClock.nanoseconds)
    }

    func requestBegan() {
        // Sequentially consistent with `look`: either `look` sees that all threads are busy, or this thread sees that no
        // check is scheduled.
        let busy = serving.add(1, ordering: .sequentiallyConsistent).newValue
        if busy >= total.load(ordering: .relaxed) { watch() }
    }

    /// Returns whether the thread is to go on: an additional thread ends when enough others are idle.
    func requestEnded(by thread: Int, at now: UInt64) -> Bool {
        let busy = serving.subtract(1, ordering: .relaxed).newValue
        lastEnd.store(now, ordering: .relaxed)
        guard thread > size, total.load(ordering: .relaxed) - busy > size else { return true }
        total.subtract(1, ordering: .relaxed)
        return false
    }

    /// Notes that a thread cannot serve, and returns whether the others go on without it.
    ///
    /// They do if it was an additional thread; the next additional thread may succeed.
    func canServeWithout(_ thread: Int) -> Bool {
        guard thread > size else { return false }
        total.subtract(1, ordering: .relaxed)
        return true
    }

    private func watch() {
        // When several threads are busy, a check is nearly always scheduled already, and the load is cheap for other
        // processors.
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
