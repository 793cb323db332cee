// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Which files' contents the kernel may go on giving out where this process moves them: without that, each program that
/// opens a file reads all of it through the daemon.
final class KeptContents: Sendable {
    typealias Answer = KernelCache<Stamp>.Answer

    private let cache = Mutex(KernelCache<Stamp>())

    // See ``KernelCache``.
    func open(_ node: Node, looking look: Stamp) -> Answer {
        cache.withLock { $0.open(node.id, looking: look) }
    }
    func begin(_ node: Node) { cache.withLock { $0.begin(node.id) } }
    func close(_ node: Node) { cache.withLock { $0.close(node.id) } }
    func doubt(_ node: Node) { cache.withLock { $0.doubt(node.id) } }
    func giveUp(_ node: Node) { cache.withLock { $0.giveUp(node.id) } }
}

extension CoordinatedFilesystem {
    /// Whether the kernel may keep what it has of a file that is opened now (D89).
    ///
    /// Only for those who read it. Who may write needs what there is, and leaves a file that looks otherwise.
    func mayKeepContents(for handle: Handle) -> Bool {
        guard isOurs(handle.node), handle.node.timesShowStores, !handle.mayWrite, !handle.truncates,
            let file = handle.file
        else { return false }
        do throws(Errno) {
            let status = try file.file.status()
            // Without a time of birth it has no parts of seconds either, on a file system that was made for smaller inodes.
            guard status.born != FileStatus.Time(seconds: 0, nanoseconds: 0) else { return false }
            var answer = keptContents.open(handle.node, looking: Stamp(status))
            // Times change when a write begins, not when it is done, and only by the first store to a page that is mapped.
            if answer == .fresh, !file.file.hasNoWriter() {
                keptContents.giveUp(handle.node)
                answer = .passing
            }
            handle.state.withLock { $0.keepsContents = answer != .passing }
            handle.hasContentsToBegin.store(answer == .fresh, ordering: .relaxed)
            return answer == .kept
        } catch {
            return false
        }
    }

    /// The kernel reads no further than where it was told that a file ends, and does not ask again for long. Before it reads
    /// anew, it is to: the file may have been changed around the mount since.
    func doubtSize(for handle: Handle) {
        if mayHaveChanged(handle) { connection.invalidateAttributes(of: handle.node.id) }
    }

    /// Whether a file has changed since the kernel may have been told of it first.
    private func mayHaveChanged(_ handle: Handle) -> Bool {
        guard handle.node.changesOnlyHere, let file = handle.file else { return true }
        do throws(Errno) {
            let baseline = handle.state.withLock { $0.baseline?.changed }
            let changed = if let baseline { baseline } else { try file.file.status().changed }
            return changed.seconds >= began
        } catch {
            return true
        }
    }

    /// The kernel has come to read, so it has done what it was told when the file was opened.
    func noteReading(by handle: Handle) {
        guard handle.hasContentsToBegin.load(ordering: .relaxed) else { return }
        handle.hasContentsToBegin.store(false, ordering: .relaxed)
        keptContents.begin(handle.node)
    }

    /// A handle goes, or has not come to be.
    func closeContents(of handle: Handle) {
        guard handle.state.withLock({ $0.keepsContents }) else { return }
        keptContents.close(handle.node)
    }
}
