// SPDX-License-Identifier: Apache-2.0

/// The number of claims that were checked, which measures the work of an event except memory latency.
final class WorkCounter: @unchecked Sendable {
    // @unchecked: an arbiter is used by one thread at a time. A copy on another thread can make this number wrong, but
    // nothing else.
    private(set) var count = 0

    func add(_ more: Int = 1) { count &+= more }
}
