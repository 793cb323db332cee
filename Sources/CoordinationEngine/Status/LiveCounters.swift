// SPDX-License-Identifier: Apache-2.0
package import Synchronization

/// Counters of events since the mount was made. Any thread can increment a counter.
package final class LiveCounters: Sendable {
    package let granted = Atomic<UInt64>(0)
    package let waited = Atomic<UInt64>(0)
    /// Questions that were sent to presenters.
    package let asked = Atomic<UInt64>(0)
    package let forfeited = Atomic<UInt64>(0)
    package let proceeded = Atomic<UInt64>(0)
    /// Holders that were suspended because they had nothing to lose, such as a reader at the end of its file.
    package let yielded = Atomic<UInt64>(0)
    /// Holders that were suspended although they perhaps still used their files.
    package let suspended = Atomic<UInt64>(0)
    /// Cycles of claims that waited for each other.
    package let deadlocks = Atomic<UInt64>(0)
    package let retried = Atomic<UInt64>(0)
    package let parkedUnderLock = Atomic<UInt64>(0)
    package let stale = Atomic<UInt64>(0)
    package let interrupted = Atomic<UInt64>(0)
    /// Look-ups of the process that made a request.
    package let identified = Atomic<UInt64>(0)
    package let preserved = Atomic<UInt64>(0)
    /// Steps by which a program would perhaps replace contents that it has not read.
    package let suspected = Atomic<UInt64>(0)
    /// Suspected overwrites by which contents were lost from the document.
    package let unseen = Atomic<UInt64>(0)
    /// Suspected overwrites by which nothing was lost.
    package let harmless = Atomic<UInt64>(0)
    /// Suspected overwrites after which the document got the changes of both programs.
    package let merged = Atomic<UInt64>(0)
    package let reads = Atomic<UInt64>(0)
    package let writes = Atomic<UInt64>(0)
    package let listed = Atomic<UInt64>(0)

    package init() {}
}

extension Atomic<UInt64> {
    @inline(__always)
    package func count() { add(1, ordering: .relaxed) }
    package var value: UInt64 { load(ordering: .relaxed) }
}
