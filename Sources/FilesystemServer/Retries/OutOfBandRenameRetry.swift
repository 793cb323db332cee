// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Names that were given to something else around the mount of another directory, which tells of it a moment later: whoever makes
/// a backup before a save, or puts a new directory in the place of one, begins by that.
extension CoordinatedFilesystem {
    /// Whether a file or a directory, or one that it is in, is called otherwise by now than the kernel thinks. One system call for
    /// each of these; none in a mount in place.
    func isRenamedOutOfBand(_ node: Node) -> Bool {
        guard sourceWatcher != nil else { return false }
        var next = node
        while true {
            let (parent, name) = next.state.withLock { ($0.parent, $0.name) }
            guard let parent else { return false }
            guard next.isFound(as: name, in: parent) else { return true }
            next = parent
        }
    }

    /// Sends whoever is about to change a name in a directory back if that is another one's by now: the kernel looks the whole path
    /// up again. It does so once; who comes by a descriptor comes back to the same directory, and means that.
    func retryIfRenamedOutOfBand(
        _ caller: Caller, from directory: Node, unless isFinal: Bool = false, _ reply: consuming Reply
    ) -> Reply? {
        guard !isFinal, caller.thread > 0, isRenamedOutOfBand(directory) else { return reply }
        return requestRetry(caller, reply)
    }

    /// The same for whoever is about to rename what the kernel does not know: it takes something else for what has the name.
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

    /// The same for whoever is about to change a file by its name, and not by a descriptor, by which the kernel does not come back:
    /// a file that nobody has open.
    func retryIfRenamedOutOfBand(
        _ caller: Caller, fromFile node: Node, unless isFinal: Bool = false, _ reply: consuming Reply
    ) -> Reply? {
        guard !isFinal, node.kind == S_IFREG, node.state.withLock({ $0.opens == 0 }) else { return reply }
        return retryIfRenamedOutOfBand(caller, from: node, reply)
    }

    /// A request is answered with an error. ESTALE has the kernel walk the path again, once: the request that comes then is not
    /// sent back a second time (D214).
    func failWithRetry(_ reply: consuming Reply, _ error: Errno) {
        let caller = reply.caller
        if error == .stale, caller.thread > 0, !ProcessInspection.isKernelThread(caller.thread) {
            retries.noteRetryRequest(caller, at: Engine.now)
        }
        reply.fail(error)
    }

    /// What a caller has been sent back for, or might have been, is being done: the next request is another one.
    func clearRetryMark(_ caller: Caller) { _ = retries.takeRetryMark(caller.thread, at: Engine.now) }
}

extension Node {
    fileprivate func isFound(as name: NameBytes, in directory: Node) -> Bool {
        do throws(Errno) {
            let found = try name.withName { (name) throws(Errno) in
                try directory.descriptor().descriptor.status(of: name)
            }
            return FileKey(found) == key
        } catch {
            // What cannot be looked at is not known to be something else.
            return error != .noEntry
        }
    }
}
