// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Detects names that other programs have given to another file out of band, if the source is not mounted in place.
///
/// The watcher of the source reports such a change only a moment later. A program outside the mount may begin a save in
/// this way: it first makes a backup, or puts a new directory in place of an old one.
extension RetryCoordinator {
    /// Answers ESTALE to a caller that is about to change a name in a directory, if the directory was renamed out of
    /// band. Otherwise returns the reply.
    ///
    /// After ESTALE the kernel looks the whole path up again, once. A caller that reached the directory by a descriptor
    /// finds the same directory again. Its second request is then carried out.
    func retryIfRenamedOutOfBand(
        _ caller: Caller, from directory: Node, unless isFinal: Bool = false, _ reply: consuming Reply
    ) -> Reply? {
        guard !isFinal, caller.thread > 0, sourceWatch.isRenamedOutOfBand(directory) else { return reply }
        return requestRetry(caller, reply)
    }

    /// Answers ESTALE to a caller that is about to rename a node that the kernel does not know. Otherwise returns the
    /// reply.
    ///
    /// The kernel has another node under the name, so the file was put there out of band.
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

    /// Answers ESTALE to a caller that is about to change a file by its name, if the file was renamed out of band.
    /// Otherwise returns the reply.
    ///
    /// An open file is left out, because the caller may use a descriptor. The kernel then would not look the name up
    /// again.
    func retryIfRenamedOutOfBand(
        _ caller: Caller, fromFile node: Node, unless isFinal: Bool = false, _ reply: consuming Reply
    ) -> Reply? {
        guard !isFinal, node.kind == S_IFREG, !node.isOpen else { return reply }
        return retryIfRenamedOutOfBand(caller, from: node, reply)
    }

    /// Answers a request with an error, and marks the thread if the error is ESTALE.
    ///
    /// After ESTALE the kernel walks the path again, once. The mark makes sure that the request that follows is not
    /// answered ESTALE a second time (D214).
    func failWithRetry(_ reply: consuming Reply, _ error: Errno) {
        let caller = reply.caller
        if error == .stale, caller.thread > 0, !ProcessInspection.isKernelThread(caller.thread) {
            retries.noteRetryRequest(caller, at: Engine.now)
        }
        reply.fail(error)
    }

    /// Removes the retry mark of a caller, because its request is carried out now. The caller's next request is another
    /// request.
    func clearRetryMark(_ caller: Caller) { _ = retries.takeRetryMark(caller.thread, at: Engine.now) }
}
