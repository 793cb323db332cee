// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// An open that could not be granted at once.
///
///     parked ──granted──▶ decided, finishing
///        │  ╲──refused──▶ decided, answered EBUSY
///        ├──interrupted──▶ away, position held ──same open within 100 ms──▶ parked
///        │                      ╲──100 ms──▶ gone
///     finishing ──replaced meanwhile: ESTALE──▶ away, claim ended ──retry within 1 s──▶ a new open
///
/// | transition | function |
/// |---|---|
/// | to parked | ``park(_:)``, ``resume(_:with:)`` |
/// | to decided | ``decide(_:)`` |
/// | interrupted | ``takeReply()``, ``leave()`` |
/// | ESTALE | ``becomeRetry()``, ``leave()`` |
///
/// 1. A decided open has no request that waits; its decision never changes.
/// 2. While an interrupted thread is away, its claim still waits or is held.
/// 3. Each reply is taken once: by the decision, or by the end of the wait.
final class PendingOpen: RetriableOpen {
    private enum Wait {
        /// Undecided, without a request: it is not parked yet, or its interrupted thread is away.
        case away
        /// Undecided: the request waits.
        case parked(Parked<Reply>)
        case decided(Engine.Decision)

        var decision: Engine.Decision? {
            guard case .decided(let decision) = self else { return nil }
            return decision
        }

        mutating func park(_ reply: Parked<Reply>) { if decision == nil { self = .parked(reply) } }

        mutating func takeReply() -> Parked<Reply>? {
            guard case .parked(let reply) = self else { return nil }
            self = .away
            return reply
        }
    }

    private struct State {
        var wait = Wait.away
        var handle: Handle
        /// The kernel's only retry is used up, or expected.
        var isRetry: Bool
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
    private let state: Mutex<State>

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

    var handle: Handle { state.withLock { $0.handle } }
    var isRetry: Bool { state.withLock { $0.isRetry } }
    var decision: Engine.Decision? { state.withLock { $0.wait.decision } }

    /// The request waits from now on.
    func park(_ reply: Parked<Reply>) { state.withLock { $0.wait.park(reply) } }

    /// The engine has decided. Returns the reply of the request that waits.
    func decide(_ decision: Engine.Decision) -> Parked<Reply>? {
        state.withLock { state in
            defer { state.wait = .decided(decision) }
            return state.wait.takeReply()
        }
    }

    /// The wait has ended without a decision. Returns the reply of the request that waits.
    func takeReply() -> Parked<Reply>? { state.withLock { $0.wait.takeReply() } }

    /// The thread has come back with another handle. The request waits again, unless the open is decided by now.
    func resume(_ handle: Handle, with reply: Parked<Reply>) -> Engine.Decision? {
        state.withLock { state in
            state.visit += 1
            state.handle = handle
            state.wait.park(reply)
            return state.wait.decision
        }
    }

    /// The answer is ESTALE. Returns the directory in which the kernel looks the name up again.
    func becomeRetry() -> Node? {
        let handle = state.withLock { state in
            state.isRetry = true
            return state.handle
        }
        return handle.node.parent
    }

    /// The thread goes. Returns the number of this absence.
    func leave() -> Int {
        state.withLock { state in
            state.visit += 1
            return state.visit
        }
    }

    /// Whether the thread is still away, by the number of its absence.
    func isAway(since visit: Int) -> Bool { state.withLock { $0.visit == visit } }
}

/// The properties that identify an open that waits or is retried.
protocol RetriableOpen: AnyObject, Sendable {
    var claim: ClaimID { get }
    var item: ItemID { get }
    var thread: Int32 { get }
}

/// Opens that wait, and opens that their threads are expected to retry.
final class ExpectedRetries<Returning: RetriableOpen>: Sendable {
    private let opens = Mutex<[Int32: Returning]>([:])
    private let count = Atomic<Int>(0)
    /// Waiting opens, by the document they wait for.
    private let waiting = Mutex<[ItemID: [ClaimID: Returning]]>([:])
    private let waitingCount = Atomic<Int>(0)

    /// Whether no retry is expected.
    var expectsNone: Bool { count.load(ordering: .relaxed) == 0 }

    /// Adds a waiting open, until ``removeWaiting(_:)``. For a retried open that comes after ``expect(_:)``, so that
    /// ``isExpected(at:or:)`` finds it at each moment.
    func addWaiting(_ open: Returning) {
        let former = waiting.withLock { $0[open.item, default: [:]].updateValue(open, forKey: open.claim) }
        if former == nil { waitingCount.add(1, ordering: .sequentiallyConsistent) }
    }

    /// Whether an open waits for a document.
    func hasWaitingOpen(_ item: ItemID) -> Bool {
        waitingCount.load(ordering: .sequentiallyConsistent) > 0 && waiting.withLock { $0[item] != nil }
    }

    /// The opens that wait for a document, in no order.
    func opens(waitingFor item: ItemID) -> [Returning] {
        guard waitingCount.load(ordering: .sequentiallyConsistent) > 0 else { return [] }
        return waiting.withLock { waiting in waiting[item].map { Array($0.values) } ?? [] }
    }

    func removeWaiting(_ open: Returning) {
        let former = waiting.withLock { waiting in
            let former = waiting[open.item]?.removeValue(forKey: open.claim)
            if waiting[open.item]?.isEmpty == true { waiting[open.item] = nil }
            return former
        }
        if former != nil { waitingCount.subtract(1, ordering: .relaxed) }
    }

    func expect(_ open: Returning) {
        let former = opens.withLock { $0.updateValue(open, forKey: open.thread) }
        if former == nil { count.add(1, ordering: .sequentiallyConsistent) }
    }

    /// Removes the expected open of a thread; the caller checks whether this is its retry.
    func take(by thread: Int32) -> Returning? {
        guard !expectsNone else { return nil }
        let open = opens.withLock { $0.removeValue(forKey: thread) }
        if open != nil { count.subtract(1, ordering: .relaxed) }
        return open
    }

    /// Removes the expected open of a thread if it matches.
    func take(by thread: Int32, where matches: (Returning) -> Bool) -> Returning? {
        guard !expectsNone else { return nil }
        let open: Returning? = opens.withLock { opens in
            guard let open = opens[thread], matches(open) else { return nil }
            return opens.removeValue(forKey: thread)
        }
        if open != nil { count.subtract(1, ordering: .relaxed) }
        return open
    }

    /// The expected open of a thread.
    subscript(thread: Int32) -> Returning? { expectsNone ? nil : opens.withLock { $0[thread] } }

    /// Whether a thread retries the open of a document that it found replaced, or an open waits for the document and satisfies
    /// `mayBe`.
    func isExpected(at item: ItemID, or mayBe: (Returning) -> Bool) -> Bool {
        // Waiting opens first: an open that is answered ESTALE meanwhile is expected by then.
        if waitingCount.load(ordering: .sequentiallyConsistent) > 0,
            let waiting = waiting.withLock({ $0[item] }), waiting.values.contains(where: mayBe)
        {
            return true
        }
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return false }
        return opens.withLock { $0.values.contains { $0.item == item } }
    }

    func remove(_ open: Returning) -> Bool {
        let isRemoved = opens.withLock { opens in
            opens[open.thread] === open && opens.removeValue(forKey: open.thread) != nil
        }
        if isRemoved { count.subtract(1, ordering: .relaxed) }
        return isRemoved
    }
}

extension PendingOpen {
    /// Whether it has been granted and is about to be answered. Its answer is ESTALE if its file is not the document any more
    /// by then.
    func mayRequestRetry(in engine: Engine) -> Bool {
        thread != 0 && !state.withLock { $0.isRetry } && engine.isGranted(claim)
    }
}
