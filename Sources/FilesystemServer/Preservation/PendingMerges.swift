// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// The files that are being merged, or will be when their program closes them, and the requests that wait for this (D246).
///
///     expected ──last close──▶ comparing ──▶ writing ──▶ no merge
///        └──a request has waited 200 ms──▶ givenUp ◀──┘ (comparing)
///
/// The kernel reports the last close of a file after the program's `close` has returned. So the next request for the file can
/// come before the merge. Such a request waits. In the other direction, a file is not merged while a request for it is under
/// way: each request has a ``MergePassage`` from its review to its end.
///
/// This is used only if a rule has the setting `unseen = "merge"`.
final class PendingMerges: Sendable {
    private enum Stage { case expected, comparing, writing, givenUp }

    private struct File {
        var stage: Stage?
        /// The number of requests that are under way.
        var passages = 0
        var waiting: [Waiter] = []

        var isUnused: Bool { stage == nil && passages == 0 && waiting.isEmpty }
        var isPending: Bool { stage.map { $0 != .givenUp } ?? false }
    }

    /// A request that waits, and that goes on once.
    private final class Waiter: Sendable {
        let next: @Sendable (MergePassage) -> Void
        init(_ next: @escaping @Sendable (MergePassage) -> Void) { self.next = next }
    }

    /// A request waits at most for this time.
    static let longestWait = TimeSpan.milliseconds(200)

    private let files = Mutex<[NodeID: File]>([:])
    private let hasBegun = Atomic(false)

    /// Whether a merge was expected or begun since the mount. From then on, requests use this object, even if the rules are
    /// changed in the middle of a merge.
    var isUsed: Bool { hasBegun.load(ordering: .relaxed) }

    private func change<Result: Sendable>(_ node: NodeID, _ body: (inout File) -> Result) -> Result {
        files.withLock { files in
            var file = files.removeValue(forKey: node) ?? File()
            let result = body(&file)
            if !file.isUnused { files[node] = file }
            return result
        }
    }

    // MARK: Merges

    /// Notes that a file will be merged when its program closes it.
    func expect(_ node: NodeID) {
        hasBegun.store(true, ordering: .relaxed)
        change(node) { file in
            if !file.isPending { file.stage = .expected }
        }
    }

    /// Whether a merge of the file is expected or under way.
    func isPending(_ node: NodeID) -> Bool { files.withLock { $0[node]?.isPending ?? false } }

    /// Whether a request for the file is under way.
    func isPassed(_ node: NodeID) -> Bool { files.withLock { $0[node]?.passages ?? 0 > 0 } }

    /// Begins a merge. Returns false if there must be none: a request for the file is under way, or has waited too long. After
    /// that, ``end(_:isExpected:)`` or ``cancel(_:)`` must follow.
    func begin(_ node: NodeID, unexpected: Bool = false) -> Bool {
        hasBegun.store(true, ordering: .relaxed)
        return change(node) { file in
            guard file.stage == .expected || unexpected && file.stage == nil, file.passages == 0 else {
                return false
            }
            file.stage = .comparing
            return true
        }
    }

    /// Called before the file is written. From now on, requests wait until the end. Returns false if the merge was given up.
    func beginWriting(_ node: NodeID) -> Bool {
        change(node) { file in
            guard file.stage == .comparing else { return false }
            file.stage = .writing
            return true
        }
    }

    /// Ends a merge that has begun, and continues the requests that wait for it, on this thread.
    ///
    /// `isExpected`: whether another program's save of the file will be merged later.
    func end(_ node: NodeID, isExpected: Bool = false) {
        resume(node) { file in
            file.stage = isExpected ? .expected : nil
            return true
        }
    }

    /// Notes that an expected merge does not begin, and continues the requests that wait for it, on this thread. A merge that
    /// another program's save has begun goes on.
    func cancel(_ node: NodeID) {
        resume(node) { file in
            if file.stage == .comparing || file.stage == .writing { return false }
            file.stage = nil
            return true
        }
    }

    private func resume(_ node: NodeID, if ends: (inout File) -> Bool) {
        let waiters = change(node) { file -> [Waiter] in
            guard ends(&file) else { return [] }
            defer { file.waiting = [] }
            file.passages += file.waiting.count
            return file.waiting
        }
        for waiter in waiters { waiter.next(MergePassage(node, self)) }
    }

    /// Gives up a merge that has not begun to write.
    func giveUp(_ node: NodeID) {
        change(node) { file in
            if file.isPending, file.stage != .writing { file.stage = .givenUp }
        }
    }

    // MARK: Requests

    /// Notes that a request for the file is under way. Returns nil if the request must wait for a merge.
    func pass(_ node: NodeID) -> MergePassage? {
        let mayPass = change(node) { file in
            if !file.isPending { file.passages += 1 }
            return !file.isPending
        }
        return mayPass ? MergePassage(node, self) : nil
    }

    /// Calls `next` when no merge of the file is pending any more. After 200 ms the merge is given up.
    func wait(for node: NodeID, by timers: Timers, then next: @escaping @Sendable (MergePassage) -> Void) {
        let waiter = Waiter(next)
        guard !goesOn(waiter, at: node, isLate: false) else { return next(MergePassage(node, self)) }
        timers.schedule(at: (Engine.now + Self.longestWait).nanoseconds) { [self] in
            if goesOn(waiter, at: node, isLate: true) { next(MergePassage(node, self)) }
        }
    }

    /// Calls `next` at once, and gives up a merge that has not begun to write. If the merge is just being written, calls `next`
    /// at its end.
    func passSoon(_ node: NodeID, then next: @escaping @Sendable (MergePassage) -> Void) {
        giveUp(node)
        let waiter = Waiter(next)
        if goesOn(waiter, at: node, isLate: false) { next(MergePassage(node, self)) }
    }

    /// Returns whether the caller must continue the request now. Otherwise the end of the merge continues it, or has done so.
    private func goesOn(_ waiter: Waiter, at node: NodeID, isLate: Bool) -> Bool {
        change(node) { file in
            let index = file.waiting.firstIndex { $0 === waiter }
            if isLate {
                guard let index, file.stage != .writing else { return false }
                file.waiting.remove(at: index)
                if file.isPending { file.stage = .givenUp }
            } else if file.isPending {
                file.waiting.append(waiter)
                return false
            }
            file.passages += 1
            return true
        }
    }

    fileprivate func leave(_ node: NodeID) { change(node) { $0.passages -= 1 } }
}

/// A request for a file that is under way. Until its end, no merge of the file begins.
final class MergePassage: Sendable {
    private let node: NodeID
    private let merges: PendingMerges
    private let hasEnded = Atomic(false)

    fileprivate init(_ node: NodeID, _ merges: PendingMerges) { (self.node, self.merges) = (node, merges) }

    /// Called before the answer: after it, the program may close the file, which may then be merged. Without this call, the
    /// request ends with this object.
    func end() {
        if !hasEnded.exchange(true, ordering: .relaxed) { merges.leave(node) }
    }

    deinit { end() }
}
