// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Detects names that now belong to another file out of band, if the source is not mounted in place. The source watcher reports
/// them only a moment later. A program begins a save so if it makes a backup first, or puts a new directory in place of an old
/// one.
extension RetryCoordinator {
    /// Answers ESTALE to a caller that is about to change a name in a directory that was renamed out of band. The kernel looks
    /// the whole path up again, once. A caller that uses a descriptor finds the same directory again, and means it.
    func retryIfRenamedOutOfBand(
        _ caller: Caller, from directory: Node, unless isFinal: Bool = false, _ reply: consuming Reply
    ) -> Reply? {
        guard !isFinal, caller.thread > 0, sourceWatch.isRenamedOutOfBand(directory) else { return reply }
        return requestRetry(caller, reply)
    }

    /// Does the same for a caller that is about to rename a node the kernel does not know: the kernel still assigns the name to
    /// another node.
    func retryIfRenamedOutOfBand(
        _ caller: Caller, toFind visits: [RetainedNode], unless isFinal: Bool, _ reply: consuming Reply
    ) -> Reply? {
        guard !visits.isEmpty, !isFinal, caller.thread > 0 else { return reply }
        return requestRetry(caller, reply)
    }

    private func requestRetry(_ caller: Caller, _ reply: consuming Reply) -> Reply? {
        guard retries.mayRetry(caller.thread, at: Engine.now),
            !ProcessInspection.isKernelThread(caller.thread)
        else { return reply }
        retries.noteRetryRequest(caller, at: Engine.now)
        reply.fail(.stale)
        return nil
    }

    /// Does the same for a caller that is about to change a file by its name. A file that is open is left out: the caller may
    /// use a descriptor, and the kernel would not look its name up again.
    func retryIfRenamedOutOfBand(
        _ caller: Caller, fromFile node: Node, unless isFinal: Bool = false, _ reply: consuming Reply
    ) -> Reply? {
        guard !isFinal, node.kind == S_IFREG, !node.isOpen else { return reply }
        return retryIfRenamedOutOfBand(caller, from: node, reply)
    }

    /// Answers with an error. After ESTALE the kernel walks the path again, once; the request that follows is not answered
    /// ESTALE a second time (D214).
    func failWithRetry(_ reply: consuming Reply, _ error: Errno) {
        let caller = reply.caller
        if error == .stale, caller.thread > 0, !ProcessInspection.isKernelThread(caller.thread) {
            retries.noteRetryRequest(caller, at: Engine.now)
        }
        reply.fail(error)
    }

    /// Removes the retry mark of a caller: its request is carried out now, and its next request is another.
    func clearRetryMark(_ caller: Caller) { _ = retries.takeRetryMark(caller.thread, at: Engine.now) }
}
