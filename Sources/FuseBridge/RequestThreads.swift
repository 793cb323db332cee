// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The threads that serve requests. A few suffice, since requests do not block; but for those that a file system below
/// keeps, and when all threads are with such requests, others come, lest they keep everybody waiting.
final class RequestThreads: Sendable {
    /// How long no request must have ended before one more thread comes, in nanoseconds.
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

    /// `start` starts a thread by its number, and says whether it could; not for the first ones.
    init(of size: Int, timers: Timers, start: @escaping @Sendable (Int, RequestThreads) -> Bool) {
        self.size = size
        self.timers = timers
        self.start = start
        total = Atomic(size)
        lastNumber = Atomic(size)
        lastEnd = Atomic(MonotonicClock.nanoseconds)
    }

    func requestBegan() {
        // In one order with what `look` does: either it sees that all are busy, or this thread that nobody watches.
        let busy = serving.add(1, ordering: .sequentiallyConsistent).newValue
        if busy >= total.load(ordering: .relaxed) { watch() }
    }

    /// Returns whether the thread is to go on: one that came to help goes when enough others wait.
    func requestEnded(by thread: Int, at now: UInt64) -> Bool {
        let busy = serving.subtract(1, ordering: .relaxed).newValue
        lastEnd.store(now, ordering: .relaxed)
        guard thread > size, total.load(ordering: .relaxed) - busy > size else { return true }
        total.subtract(1, ordering: .relaxed)
        return false
    }

    /// A thread cannot serve. Returns whether the others do all the same: one that came to help is missed by nobody, and the next
    /// one may fare better.
    func canServeWithout(_ thread: Int) -> Bool {
        guard thread > size else { return false }
        total.subtract(1, ordering: .relaxed)
        return true
    }

    private func watch() {
        // Nearly always somebody watches where several threads are busy, and to look costs the others nothing.
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
