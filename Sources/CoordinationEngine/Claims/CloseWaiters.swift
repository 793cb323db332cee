// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import LinuxSystem
import Synchronization

// Delays the reply to a program that ends an access within which it wrote files. The program closes its file before it
// ends the access, but the kernel often sends the release of the handle later. Only after the release are the handle's
// writes known.

extension Engine {
    /// A callback that is called when certain handles are released.
    struct CloseWaiter {
        var handles: Set<ClaimID>
        let tell: @Sendable () -> Void
    }

    /// Calls `tell` when the program of an aware access has closed all handles that it opened within the access.
    ///
    /// If handles are still open after the time `trailing`, `tell` is called at that moment. If there are no handles to
    /// wait for, returns false and does not call `tell`.
    package func whenClosed(_ claim: ClaimID, tell: @escaping @Sendable () -> Void) -> Bool {
        guard withState({ $0.addCloseWaiter(for: claim, tell: tell) }) else { return false }
        timers.schedule(at: (Self.now + bounds.trailing).nanoseconds) { [self] in
            withState { $0.takeCloseWaiter(of: claim) }?.tell()
        }
        return true
    }
}

extension Engine.State {
    /// Stores a callback for the handles that were opened within an access. Returns false if there are none.
    mutating func addCloseWaiter(for access: ClaimID, tell: @escaping @Sendable () -> Void) -> Bool {
        let handles = arbiter.handles(within: access)
        guard !handles.isEmpty else { return false }
        closeWaiters[access] = Engine.CloseWaiter(handles: Set(handles), tell: tell)
        return true
    }

    mutating func takeCloseWaiter(of access: ClaimID) -> Engine.CloseWaiter? {
        closeWaiters.removeValue(forKey: access)
    }

    /// Removes an ended claim from all stored callbacks. Returns the callbacks that waited only for this claim.
    mutating func takeCloseWaiters(_ claim: ClaimID) -> [Engine.CloseWaiter] {
        if closeWaiters.isEmpty { return [] }
        var over: [Engine.CloseWaiter] = []
        for (access, closing) in closeWaiters where closing.handles.contains(claim) || access == claim {
            closeWaiters[access]?.handles.remove(claim)
            guard access == claim || closing.handles.count == 1 else { continue }
            closeWaiters[access] = nil
            over.append(closing)
        }
        return over
    }
}
