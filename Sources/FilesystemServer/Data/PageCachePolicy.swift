// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem
import Synchronization

/// Decides which files the kernel may serve from its page cache where this process moves the data. Without it, each program
/// that opens a file reads all of it through the daemon.
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

extension DataPlane {
    /// Whether the kernel may use its page cache of a file that is opened now (D89).
    ///
    /// Only for readers. A writer needs the present contents, and changes the file's stamp.
    func mayReusePageCache(for handle: Handle) -> Bool {
        guard context.namesChangeOnlyHere(handle.node), handle.node.timesShowStores, !handle.mayWrite,
            !handle.truncates,
            let file = handle.file
        else { return false }
        do throws(Errno) {
            let status = try file.file.status()
            // Without a time of birth, the inodes are too small for fractions of seconds in the times.
            guard status.born != FileStatus.Time(seconds: 0, nanoseconds: 0) else { return false }
            var answer = pageCachePolicy.open(handle.node, looking: Stamp(status))
            // Times change when a write begins, not when it ends, and only by the first store to a mapped page.
            if answer == .refill, !file.file.hasNoWriter() {
                pageCachePolicy.giveUp(handle.node)
                answer = .uncached
            }
            handle.noteCaching(fillsPageCache: answer != .uncached)
            handle.awaitsFirstRead.store(answer == .refill, ordering: .relaxed)
            return answer == .reuse
        } catch {
            return false
        }
    }

    /// Makes the kernel ask for the size before it reads again. It reads no further than the cached size, which it trusts
    /// for long, but the file may have been changed out of band.
    func invalidateSizeIfChanged(for handle: Handle) {
        if mayHaveChanged(handle) { connection.invalidateAttributes(of: handle.node.id) }
    }

    /// Whether a file has changed since the kernel may first have cached its attributes.
    private func mayHaveChanged(_ handle: Handle) -> Bool {
        guard handle.node.isMachineLocal, let file = handle.file else { return true }
        do throws(Errno) {
            let baseline = handle.baseline?.stamp.changed
            let changed = if let baseline { baseline } else { try file.file.status().changed }
            return changed.seconds >= context.began
        } catch {
            return true
        }
    }

    /// Notes that the kernel reads, so it has dropped its old cache as told at the open.
    func noteReading(by handle: Handle) {
        guard handle.awaitsFirstRead.load(ordering: .relaxed) else { return }
        handle.awaitsFirstRead.store(false, ordering: .relaxed)
        pageCachePolicy.begin(handle.node)
    }

    /// Notes that a handle is closed, or could not be opened.
    func endPageCaching(of handle: Handle) {
        guard handle.fillsPageCache else { return }
        pageCachePolicy.close(handle.node)
    }
}
