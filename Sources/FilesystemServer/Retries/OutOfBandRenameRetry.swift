// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem

/// Detects that files were renamed out of band, for a source that is not mounted in place.
///
/// The watcher of the source reports such a rename a moment late. A program outside the mount may begin a save with
/// such a rename: for a backup, or to replace a directory by a new one.
extension RetryCoordinator {
    /// Answers ESTALE to a request that changes a name in a directory, if the directory was renamed out of band.
    /// Otherwise returns the reply.
    ///
    /// After ESTALE the kernel looks up the whole path a second time. If the program uses the directory by a
    /// descriptor, the kernel finds the same directory, and the daemon carries out the second request.
    func retryIfRenamedOutOfBand(
        _ caller: Caller, from directory: Node, unless isFinal: Bool = false, _ reply: consuming Reply
    ) -> Reply? {
        guard !isFinal, caller.thread > 0, sourceWatch.isRenamedOutOfBand(directory) else { return reply }
        return requestRetry(caller, reply)
    }

    /// Answers ESTALE to a request that renames a node which the kernel does not know. Otherwise returns the reply.
    ///
    /// In the kernel's cache, the name leads to another node. So the file got the name out of band.
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

    /// Answers ESTALE to a request that changes a file by its name, if the file was renamed out of band. Otherwise
    /// returns the reply.
    ///
    /// For an open file, always returns the reply. The program may use a descriptor, and then the kernel would not look
    /// up the name a second time.
    func retryIfRenamedOutOfBand(
        _ caller: Caller, fromFile node: Node, unless isFinal: Bool = false, _ reply: consuming Reply
    ) -> Reply? {
        guard !isFinal, node.kind == S_IFREG, !node.isOpen else { return reply }
        return retryIfRenamedOutOfBand(caller, from: node, reply)
    }

    /// Answers a request with an error. If the error is ESTALE, marks the request's thread.
    ///
    /// After ESTALE the kernel walks the path a second time and repeats the request. Because of the mark, the daemon
    /// does not answer that request with ESTALE as well (D214).
    func failWithRetry(_ reply: consuming Reply, _ error: Errno) {
        let caller = reply.caller
        if error == .stale, caller.thread > 0, !ProcessInspection.isKernelThread(caller.thread) {
            retries.noteRetryRequest(caller, at: Engine.now)
        }
        reply.fail(error)
    }

    /// Removes the mark of the request's thread, because the request is carried out now. The thread's next request is
    /// no retry.
    func clearRetryMark(_ caller: Caller) { _ = retries.takeRetryMark(caller.thread, at: Engine.now) }
}
