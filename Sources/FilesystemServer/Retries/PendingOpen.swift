// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import LinuxSystem
import Synchronization

/// An open that could not be granted at once.
///
///     waiting ──granted──▶ finishing
///        │  ╲──refused──▶ answered EBUSY
///        ├──interrupted──▶ away, in its place ──same open within 100 ms──▶ waiting
///        │                      ╲──100 ms──▶ gone
///     finishing ──replaced meanwhile: ESTALE──▶ away, claim ended ──retry within 1 s──▶ a new open
///
/// While an interrupted thread is away its claim waits or holds as if it were there.
final class PendingOpen: RetriableOpen {
    struct State {
        /// The request that waits; nil while the thread is away.
        var reply: Parked<Reply>?
        var handle: Handle
        var decision: Engine.Decision?
        var isRetry = false
        /// Grows whenever the thread goes or comes, so that an old deadline recognises itself.
        var visit = 0
    }

    let claim: ClaimID
    let item: ItemID
    let thread: Int32
    let user: UInt32
    let token: UInt
    /// How often its request has claimed the file that it has found.
    let fileClaims: Int
    let state: Mutex<State>

    /// `isRetry` says that an earlier open of the same name used up the kernel's one retry.
    init(_ handle: Handle, by user: UInt32, token: UInt, isRetry: Bool, fileClaims: Int = 0) {
        self.user = user
        self.fileClaims = fileClaims
        claim = handle.claim
        item = handle.item
        thread = handle.thread
        self.token = token
        state = Mutex(State(handle: handle, isRetry: isRetry))
    }
}

/// An open that waits or is sent away, by what it is known.
protocol RetriableOpen: AnyObject, Sendable {
    var claim: ClaimID { get }
    var item: ItemID { get }
    var thread: Int32 { get }
}

/// Opens that wait, and those whose thread was sent away and is expected back.
final class ExpectedRetries<Open: RetriableOpen>: Sendable {
    private let opens = Mutex<[Int32: Open]>([:])
    private let count = Atomic<Int>(0)
    /// By the document that they wait for.
    private let waiting = Mutex<[ItemID: [ClaimID: Open]]>([:])
    private let waitingCount = Atomic<Int>(0)

    /// Whether no thread is expected back.
    var expectsNone: Bool { count.load(ordering: .relaxed) == 0 }

    /// An open waits from here until ``removeWaiting(_:)``; if it is sent away, that comes after ``expect(_:)``, so that at each moment
    /// it is found by ``isExpected(at:or:)``.
    func addWaiting(_ open: Open) {
        let former = waiting.withLock { $0[open.item, default: [:]].updateValue(open, forKey: open.claim) }
        if former == nil { waitingCount.add(1, ordering: .sequentiallyConsistent) }
    }

    /// Whether an open waits for a document.
    func hasWaitingOpen(_ item: ItemID) -> Bool {
        waitingCount.load(ordering: .sequentiallyConsistent) > 0 && waiting.withLock { $0[item] != nil }
    }

    /// Those that wait for a document, in no order.
    func opens(waitingFor item: ItemID) -> [Open] {
        guard waitingCount.load(ordering: .sequentiallyConsistent) > 0 else { return [] }
        return waiting.withLock { waiting in waiting[item].map { Array($0.values) } ?? [] }
    }

    func removeWaiting(_ open: Open) {
        let former = waiting.withLock { waiting in
            let former = waiting[open.item]?.removeValue(forKey: open.claim)
            if waiting[open.item]?.isEmpty == true { waiting[open.item] = nil }
            return former
        }
        if former != nil { waitingCount.subtract(1, ordering: .relaxed) }
    }

    func expect(_ open: Open) {
        let former = opens.withLock { $0.updateValue(open, forKey: open.thread) }
        if former == nil { count.add(1, ordering: .sequentiallyConsistent) }
    }

    /// The open a thread was expected back for; whether this is its return, the caller sees.
    func take(by thread: Int32) -> Open? {
        guard !expectsNone else { return nil }
        let open = opens.withLock { $0.removeValue(forKey: thread) }
        if open != nil { count.subtract(1, ordering: .relaxed) }
        return open
    }

    /// The same, if the open is such a one.
    func take(by thread: Int32, where matches: (Open) -> Bool) -> Open? {
        guard !expectsNone else { return nil }
        let open: Open? = opens.withLock { opens in
            guard let open = opens[thread], matches(open) else { return nil }
            return opens.removeValue(forKey: thread)
        }
        if open != nil { count.subtract(1, ordering: .relaxed) }
        return open
    }

    /// The open that a thread is expected back for.
    subscript(thread: Int32) -> Open? { expectsNone ? nil : opens.withLock { $0[thread] } }

    /// Whether a thread is on its way back to a document it found replaced, or an open waits for the document that `mayBe` sent
    /// away.
    func isExpected(at item: ItemID, or mayBe: (Open) -> Bool) -> Bool {
        // First those that wait: who is sent away meanwhile is expected by then.
        if waitingCount.load(ordering: .sequentiallyConsistent) > 0,
            let waiting = waiting.withLock({ $0[item] }), waiting.values.contains(where: mayBe)
        {
            return true
        }
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return false }
        return opens.withLock { $0.values.contains { $0.item == item } }
    }

    func remove(_ open: Open) -> Bool {
        let isRemoved = opens.withLock { opens in
            opens[open.thread] === open && opens.removeValue(forKey: open.thread) != nil
        }
        if isRemoved { count.subtract(1, ordering: .relaxed) }
        return isRemoved
    }
}
