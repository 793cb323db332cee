// SPDX-License-Identifier: Apache-2.0
import Arbitration
package import Coordination
import LinuxSystem
import Synchronization

// The end of an access within which files were written: a program closes its file and then says that it is done, but
// the kernel tells of the first whenever it likes, and so often later. What was written through the handle is known
// when it is told.

extension Engine {
    /// Whoever waits for handles that are as good as closed.
    struct CloseWaiter {
        var handles: Set<ClaimID>
        let tell: @Sendable () -> Void
    }

    /// Tells when the program of an aware access has closed what it opened within it, or after `trailing`: it may mean to
    /// keep it open. Returns false, and tells nobody, if there is nothing of the kind.
    package func whenClosed(_ claim: ClaimID, tell: @escaping @Sendable () -> Void) -> Bool {
        let isOpen = state.withLock { state in
            let handles = state.arbiter.handles(within: claim)
            if !handles.isEmpty { state.closeWaiters[claim] = CloseWaiter(handles: Set(handles), tell: tell) }
            return !handles.isEmpty
        }
        guard isOpen else { return false }
        timers.schedule(at: (Self.now + bounds.trailing).nanoseconds) { [self] in
            state.withLock { $0.closeWaiters.removeValue(forKey: claim) }?.tell()
        }
        return true
    }
}

extension Engine.State {
    /// A claim is over. Returns whoever waited for that alone.
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
