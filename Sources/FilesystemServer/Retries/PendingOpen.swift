// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Synchronization

/// An open with a claim that was not granted without a wait.
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
/// An open is *parked* while its request waits. It is *away* while its thread was answered but is expected to open the
/// file again.
///
/// 1. When an open is decided, its request does not wait any more, and the decision never changes.
/// 2. While an interrupted thread is away, the open's claim still waits or is held.
/// 3. Each reply is taken once: by the decision, or by the end of the wait.
final class PendingOpen: RetriableOpen {
    private enum Wait {
        /// The claim is undecided and no request waits: the open is not parked yet, or its interrupted thread is away.
        case away
        /// The claim is undecided and the request waits.
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
        /// Whether the kernel has used its only retry of the open, or will use it next.
        var isRetry: Bool
        /// Counts how often the thread has gone away or come back. A deadline stores the count, and does nothing if the
        /// count has changed.
        var visit = 0
    }

    let claim: ClaimID
    let item: ItemID
    let thread: Int32
    let user: UInt32
    let token: UInt
    /// How often the open has made a new claim because the file that it found was replaced.
    let fileClaims: Int
    private let state: Mutex<State>

    /// Makes an open that is not parked yet.
    ///
    /// `isRetry`: whether the kernel has already used its only retry, for an earlier open of the same name.
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

    /// Notes that the request waits from now on.
    func park(_ reply: Parked<Reply>) { state.withLock { $0.wait.park(reply) } }

    /// Notes the engine's decision. Returns the reply of the waiting request, or nil if no request waits.
    func decide(_ decision: Engine.Decision) -> Parked<Reply>? {
        state.withLock { state in
            defer { state.wait = .decided(decision) }
            return state.wait.takeReply()
        }
    }

    /// Ends the wait without a decision. Returns the reply of the waiting request, or nil if no request waits.
    func takeReply() -> Parked<Reply>? { state.withLock { $0.wait.takeReply() } }

    /// Notes that the thread has come back with a new handle. If the open was decided in the meantime, returns the
    /// decision; otherwise the request waits.
    func resume(_ handle: Handle, with reply: Parked<Reply>) -> Engine.Decision? {
        state.withLock { state in
            state.visit += 1
            state.handle = handle
            state.wait.park(reply)
            return state.wait.decision
        }
    }

    /// Notes that the open is answered ESTALE. Returns the directory in which the kernel looks the name up again.
    func becomeRetry() -> Node? {
        let handle = state.withLock { state in
            state.isRetry = true
            return state.handle
        }
        return handle.node.parent
    }

    /// Notes that the thread gets an answer and goes away. Returns a number for this absence.
    func leave() -> Int {
        state.withLock { state in
            state.visit += 1
            return state.visit
        }
    }

    /// Returns whether the absence with this number still lasts.
    func isAway(since visit: Int) -> Bool { state.withLock { $0.visit == visit } }
}

/// An open that ``ExpectedRetries`` can find: by its thread, or by its document.
protocol RetriableOpen: AnyObject, Sendable {
    var claim: ClaimID { get }
    var item: ItemID { get }
    var thread: Int32 { get }
}

/// Two kinds of opens: those that wait, and those that a thread is expected to send again.
final class ExpectedRetries<Returning: RetriableOpen>: Sendable {
    private let opens = Mutex<[Int32: Returning]>([:])
    private let count = Atomic<Int>(0)
    /// The waiting opens, grouped by document.
    private let waiting = Mutex<[ItemID: [ClaimID: Returning]]>([:])
    private let waitingCount = Atomic<Int>(0)

    /// Whether no thread is expected to retry an open.
    var expectsNone: Bool { count.load(ordering: .relaxed) == 0 }

    /// Adds a waiting open. It stays until ``removeWaiting(_:)`` is called.
    ///
    /// ``isExpected(at:or:)`` must find the open at each moment. So an open that is to be retried is first added by
    /// ``expect(_:)``, and only then removed from the waiting opens.
    func addWaiting(_ open: Returning) {
        let former = waiting.withLock { $0[open.item, default: [:]].updateValue(open, forKey: open.claim) }
        if former == nil { waitingCount.add(1, ordering: .sequentiallyConsistent) }
    }

    /// Returns whether an open waits for a document.
    func hasWaitingOpen(_ item: ItemID) -> Bool {
        waitingCount.load(ordering: .sequentiallyConsistent) > 0 && waiting.withLock { $0[item] != nil }
    }

    /// Returns the opens that wait for a document, in no order.
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

    /// Removes and returns the open that a thread is expected to send again. The caller must check whether the thread's
    /// present request is that open.
    func take(by thread: Int32) -> Returning? {
        guard !expectsNone else { return nil }
        let open = opens.withLock { $0.removeValue(forKey: thread) }
        if open != nil { count.subtract(1, ordering: .relaxed) }
        return open
    }

    /// Removes and returns the open that a thread is expected to send again, if `matches` returns true for the open.
    func take(by thread: Int32, where matches: (Returning) -> Bool) -> Returning? {
        guard !expectsNone else { return nil }
        let open: Returning? = opens.withLock { opens in
            guard let open = opens[thread], matches(open) else { return nil }
            return opens.removeValue(forKey: thread)
        }
        if open != nil { count.subtract(1, ordering: .relaxed) }
        return open
    }

    /// The open that a thread is expected to send again.
    subscript(thread: Int32) -> Returning? { expectsNone ? nil : opens.withLock { $0[thread] } }

    /// Returns whether a thread is expected to send the open of a document again. Also returns true if `mayBe` returns
    /// true for an open that waits for the document.
    func isExpected(at item: ItemID, or mayBe: (Returning) -> Bool) -> Bool {
        // The waiting opens are searched before the expected ones. An open that stops waiting between the two searches
        // was already added to the expected opens.
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
    /// Returns whether the open is granted, and may still be answered ESTALE. ESTALE is the answer if the document has
    /// got another file in the meantime.
    func mayRequestRetry(in engine: Engine) -> Bool {
        thread != 0 && !state.withLock { $0.isRetry } && engine.isGranted(claim)
    }
}
