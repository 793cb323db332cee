// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Which files' contents the kernel may go on giving out where this process moves them: without that, each program that
/// opens a file reads all of it through the daemon.
final class PageCachePolicy: Sendable {
    typealias CacheAction = KernelCacheTracker<Stamp>.CacheAction

    private let cache = Mutex(KernelCacheTracker<Stamp>())

    // See ``KernelCacheTracker``.
    func open(_ node: Node, looking validator: Stamp) -> CacheAction {
        cache.withLock { $0.open(node.id, looking: validator) }
    }
    func begin(_ node: Node) { cache.withLock { $0.begin(node.id) } }
    func close(_ node: Node) { cache.withLock { $0.close(node.id) } }
    func invalidate(_ node: Node) { cache.withLock { $0.invalidate(node.id) } }
    func giveUp(_ node: Node) { cache.withLock { $0.giveUp(node.id) } }
}

extension CoordinatedFilesystem {
    /// Whether the kernel may keep what it has of a file that is opened now (D89).
    ///
    /// Only for those who read it. Who may write needs what there is, and leaves a file that looks otherwise.
    func mayReusePageCache(for handle: Handle) -> Bool {
        guard namesChangeOnlyHere(handle.node), handle.node.timesShowStores, !handle.mayWrite,
            !handle.truncates,
            let file = handle.file
        else { return false }
        do throws(Errno) {
            let status = try file.file.status()
            // Without a time of birth it has no parts of seconds either, on a file system that was made for smaller inodes.
            guard status.born != FileStatus.Time(seconds: 0, nanoseconds: 0) else { return false }
            var answer = pageCachePolicy.open(handle.node, looking: Stamp(status))
            // Times change when a write begins, not when it is done, and only by the first store to a page that is mapped.
            if answer == .refill, !file.file.hasNoWriter() {
                pageCachePolicy.giveUp(handle.node)
                answer = .uncached
            }
            handle.state.withLock { $0.fillsPageCache = answer != .uncached }
            handle.awaitsFirstRead.store(answer == .refill, ordering: .relaxed)
            return answer == .reuse
        } catch {
            return false
        }
    }

    /// The kernel reads no further than where it was told that a file ends, and does not ask again for long. Before it reads
    /// anew, it is to: the file may have been changed around the mount since.
    func invalidateSizeIfChanged(for handle: Handle) {
        if mayHaveChanged(handle) { connection.invalidateAttributes(of: handle.node.id) }
    }

    /// Whether a file has changed since the kernel may have been told of it first.
    private func mayHaveChanged(_ handle: Handle) -> Bool {
        guard handle.node.isMachineLocal, let file = handle.file else { return true }
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
        guard handle.awaitsFirstRead.load(ordering: .relaxed) else { return }
        handle.awaitsFirstRead.store(false, ordering: .relaxed)
        pageCachePolicy.begin(handle.node)
    }

    /// A handle goes, or has not come to be.
    func endPageCaching(of handle: Handle) {
        guard handle.state.withLock({ $0.fillsPageCache }) else { return }
        pageCachePolicy.close(handle.node)
    }
}
