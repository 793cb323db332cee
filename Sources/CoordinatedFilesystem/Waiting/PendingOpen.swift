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
final class PendingOpen: Sendable {
    struct State {
        /// The request that waits; nil while the thread is away.
        var reply: Parked<Reply>?
        var handle: Handle
        var decision: Engine.Decision?
        var hasBeenStale = false
        /// Grows whenever the thread goes or comes, so that an old deadline recognises itself.
        var visit = 0
    }

    let claim: ClaimID
    let item: ItemID
    let thread: Int32
    let token: UInt
    let state: Mutex<State>

    /// `hasBeenStale` says that an earlier open of the same name used up the kernel's one retry.
    init(_ handle: Handle, token: UInt, hasBeenStale: Bool) {
        claim = handle.claim
        item = handle.item
        thread = handle.thread
        self.token = token
        state = Mutex(State(handle: handle, hasBeenStale: hasBeenStale))
    }
}

extension PendingOpen {
    /// Whether its thread will be sent away when its turn comes, because its file is no longer the document.
    fileprivate var willBeStale: Bool {
        let (handle, hasBeenStale) = state.withLock { ($0.handle, $0.hasBeenStale) }
        return thread != 0 && !hasBeenStale && handle.isReplaced
    }
}

/// Opens whose thread was sent away and is expected back, and those that wait and may be sent away.
final class Returns: Sendable {
    private let opens = Mutex<[Int32: PendingOpen]>([:])
    private let count = Atomic<Int>(0)
    /// By the document that they wait for.
    private let waiting = Mutex<[ItemID: [ClaimID: PendingOpen]]>([:])

    var isQuiet: Bool { count.load(ordering: .relaxed) == 0 }

    /// An open waits from here until ``ceases(_:)``, which comes after it was sent away if it is.
    func waits(_ open: PendingOpen) { waiting.withLock { $0[open.item, default: [:]][open.claim] = open } }

    func ceases(_ open: PendingOpen) {
        waiting.withLock { waiting in
            waiting[open.item]?[open.claim] = nil
            if waiting[open.item]?.isEmpty == true { waiting[open.item] = nil }
        }
    }

    func expect(_ open: PendingOpen) {
        let former = opens.withLock { $0.updateValue(open, forKey: open.thread) }
        if former == nil { count.add(1, ordering: .sequentiallyConsistent) }
    }

    /// The open a thread was expected back for; whether this is its return, the caller sees.
    func take(by thread: Int32) -> PendingOpen? {
        guard !isQuiet else { return nil }
        let open = opens.withLock { $0.removeValue(forKey: thread) }
        if open != nil { count.subtract(1, ordering: .relaxed) }
        return open
    }

    /// Whether a thread is on its way back to a document it found replaced, or will be.
    func isExpected(at item: ItemID) -> Bool {
        // First those that wait: who is sent away meanwhile is expected by then.
        if let waiting = waiting.withLock({ $0[item] }), waiting.values.contains(where: \.willBeStale) {
            return true
        }
        guard !isQuiet else { return false }
        return opens.withLock { $0.values.contains { $0.item == item } }
    }

    func remove(_ open: PendingOpen) -> Bool {
        let isRemoved = opens.withLock { opens in
            opens[open.thread] === open && opens.removeValue(forKey: open.thread) != nil
        }
        if isRemoved { count.subtract(1, ordering: .relaxed) }
        return isRemoved
    }
}
