// SPDX-License-Identifier: Apache-2.0

/// The number of checks of claims. The number shows how much work an event causes, but not how slow the memory is.
final class WorkCounter: @unchecked Sendable {
    // @unchecked: Only one thread at a time uses an arbiter. If a copy of the arbiter is used on another thread, only
    // this number can be wrong.
    private(set) var count = 0

    func add(_ more: Int = 1) { count &+= more }
}
