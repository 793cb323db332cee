// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// The files that are perhaps being merged, and the steps on names that wait for the end of a merge.
///
/// The kernel reports the last close of a file after the program's `close` has returned. So another program can rename a file
/// over the document before the merge is done, and would replace a text that is not merged yet.
final class PendingMerges: Sendable {
    private struct State {
        /// The number of merges of each file.
        var running: [NodeID: Int] = [:]
        var waiting: [NodeID: [Step]] = [:]
    }

    /// A step that is taken once.
    private final class Step: Sendable {
        private let next: Mutex<(@Sendable () -> Void)?>

        init(_ next: @escaping @Sendable () -> Void) { self.next = Mutex(next) }

        func take() {
            let next = next.withLock { next in
                defer { next = nil }
                return next
            }
            next?()
        }
    }

    private let state = Mutex(State())

    func begin(_ node: NodeID) { state.withLock { $0.running[node, default: 0] += 1 } }

    /// Ends a merge. If it was the last one of the file, the waiting steps are taken on this thread.
    func end(_ node: NodeID) {
        let steps = state.withLock { state -> [Step] in
            let left = (state.running[node] ?? 1) - 1
            guard left == 0 else {
                state.running[node] = left
                return []
            }
            state.running[node] = nil
            return state.waiting.removeValue(forKey: node) ?? []
        }
        for step in steps { step.take() }
    }

    /// Takes the steps that wait for a file, on this thread.
    func resume(_ node: NodeID) {
        let steps = state.withLock { $0.waiting.removeValue(forKey: node) ?? [] }
        for step in steps { step.take() }
    }

    func isRunning(_ node: NodeID) -> Bool { state.withLock { $0.running[node] != nil } }

    /// Takes a step when the next merge of a file has ended, but at `limit` at the latest.
    func wait(
        for node: NodeID, until limit: UInt64, by timers: Timers, then next: @escaping @Sendable () -> Void
    ) {
        let step = Step(next)
        state.withLock { $0.waiting[node, default: []].append(step) }
        timers.schedule(at: limit) { [self] in
            state.withLock { state in
                state.waiting[node]?.removeAll { $0 === step }
                if state.waiting[node]?.isEmpty ?? false { state.waiting[node] = nil }
            }
            step.take()
        }
    }
}
