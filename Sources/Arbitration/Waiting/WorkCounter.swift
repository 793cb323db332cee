// SPDX-License-Identifier: Apache-2.0

/// How many claims were looked at: what an event takes, but for the memory it has to wait for.
final class WorkCounter: @unchecked Sendable {
    // @unchecked: one thread at a time has an arbiter; a copy that another one has may make the number wrong, and nothing else.
    private(set) var count = 0

    func add(_ more: Int = 1) { count &+= more }
}
