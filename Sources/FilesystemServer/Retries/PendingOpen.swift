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
///        ├──interrupted──▶ away, position held ──same open within 100 ms──▶ waiting
///        │                      ╲──100 ms──▶ gone
///     finishing ──replaced meanwhile: ESTALE──▶ away, claim ended ──retry within 1 s──▶ a new open
///
/// While an interrupted thread is away, its claim still waits or is held.
final class PendingOpen: RetriableOpen {
    struct State {
        /// The request that waits; nil while the thread is away.
        var reply: Parked<Reply>?
        var handle: Handle
        var decision: Engine.Decision?
        var isRetry = false
        /// Grows whenever the thread goes or comes, so that an old deadline has no effect.
        var visit = 0
    }

    let claim: ClaimID
    let item: ItemID
    let thread: Int32
    let user: UInt32
    let token: UInt
    /// How often its request has claimed the file it found.
    let fileClaims: Int
    let state: Mutex<State>

    /// `isRetry` says that an earlier open of the same name used up the kernel's only retry.
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

/// The properties that identify an open that waits or is retried.
protocol RetriableOpen: AnyObject, Sendable {
    var claim: ClaimID { get }
    var item: ItemID { get }
    var thread: Int32 { get }
}

/// Opens that wait, and opens that their threads are expected to retry.
final class ExpectedRetries<Open: RetriableOpen>: Sendable {
    private let opens = Mutex<[Int32: Open]>([:])
    private let count = Atomic<Int>(0)
    /// Waiting opens, by the document they wait for.
    private let waiting = Mutex<[ItemID: [ClaimID: Open]]>([:])
    private let waitingCount = Atomic<Int>(0)

    /// Whether no retry is expected.
    var expectsNone: Bool { count.load(ordering: .relaxed) == 0 }

    /// Adds a waiting open, until ``removeWaiting(_:)``. For a retried open that comes after ``expect(_:)``, so that
    /// ``isExpected(at:or:)`` finds it at each moment.
    func addWaiting(_ open: Open) {
        let former = waiting.withLock { $0[open.item, default: [:]].updateValue(open, forKey: open.claim) }
        if former == nil { waitingCount.add(1, ordering: .sequentiallyConsistent) }
    }

    /// Whether an open waits for a document.
    func hasWaitingOpen(_ item: ItemID) -> Bool {
        waitingCount.load(ordering: .sequentiallyConsistent) > 0 && waiting.withLock { $0[item] != nil }
    }

    /// The opens that wait for a document, in no order.
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

    /// Removes the expected open of a thread; the caller checks whether this is its retry.
    func take(by thread: Int32) -> Open? {
        guard !expectsNone else { return nil }
        let open = opens.withLock { $0.removeValue(forKey: thread) }
        if open != nil { count.subtract(1, ordering: .relaxed) }
        return open
    }

    /// Removes the expected open of a thread if it matches.
    func take(by thread: Int32, where matches: (Open) -> Bool) -> Open? {
        guard !expectsNone else { return nil }
        let open: Open? = opens.withLock { opens in
            guard let open = opens[thread], matches(open) else { return nil }
            return opens.removeValue(forKey: thread)
        }
        if open != nil { count.subtract(1, ordering: .relaxed) }
        return open
    }

    /// The expected open of a thread.
    subscript(thread: Int32) -> Open? { expectsNone ? nil : opens.withLock { $0[thread] } }

    /// Whether a thread retries the open of a document that it found replaced, or an open waits for the document and satisfies
    /// `mayBe`.
    func isExpected(at item: ItemID, or mayBe: (Open) -> Bool) -> Bool {
        // Waiting opens first: an open that is answered ESTALE meanwhile is expected by then.
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
