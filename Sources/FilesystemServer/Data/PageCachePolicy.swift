// SPDX-License-Identifier: Apache-2.0
import FuseBridge
import LinuxSystem
import Synchronization

/// Decides for which files the kernel may use its page cache, if the daemon moves the data.
///
/// Without the page cache, each program that opens a file would read the whole file through the daemon.
final class PageCachePolicy: Sendable {
    typealias CacheAction = KernelCacheTracker<Stamp>.CacheAction

    private let cache = Mutex(KernelCacheTracker<Stamp>())

    // Each function from here on calls the function with the same name of ``KernelCacheTracker``, under the mutex.
    func open(_ node: Node, looking validator: Stamp) -> CacheAction {
        cache.withLock { $0.open(node.id, looking: validator) }
    }
    func begin(_ node: Node) { cache.withLock { $0.begin(node.id) } }
    func close(_ node: Node) { cache.withLock { $0.close(node.id) } }
    func invalidate(_ node: Node) { cache.withLock { $0.invalidate(node.id) } }
    func giveUp(_ node: Node) { cache.withLock { $0.giveUp(node.id) } }
}

extension DataPlane {
    /// Whether the kernel may use its page cache of the file that is opened now (D89).
    ///
    /// Only a reader may use the cache. A writer may not, because it needs the present contents, and changes the file's
    /// size and times.
    func mayReusePageCache(for handle: Handle) -> Bool {
        guard context.namesChangeOnlyHere(handle.node), handle.node.timesShowStores, !handle.mayWrite,
            !handle.truncates,
            let file = handle.file
        else { return false }
        do throws(Errno) {
            let status = try file.file.status()
            // If the times of birth are missing, the file system may have small inodes. On such a file system, the file's times
            // may have whole seconds only, and do not show each change.
            guard status.born != FileStatus.Time(seconds: 0, nanoseconds: 0) else { return false }
            var answer = pageCachePolicy.open(handle.node, looking: Stamp(status))
            // While a writer has the file open, the file's times do not show all changes. The times change when a write begins,
            // not when it ends. If a program changes a mapped page several times, the times change only once.
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

    /// Makes the kernel ask for the file's size before its next read, if the file may have changed.
    ///
    /// The kernel reads no further than the size that it has cached, and it caches sizes for a long time. A change out of band
    /// may have given the file another size.
    func invalidateSizeIfChanged(for handle: Handle) {
        if mayHaveChanged(handle) { connection.invalidateAttributes(of: handle.node.id) }
    }

    /// Whether the file's contents or attributes may have changed since the mount began. At that time the kernel had cached
    /// nothing.
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

    /// Notes that the kernel has sent a READ for the handle. From this the daemon knows that the kernel has dropped its old
    /// cache.
    func noteReading(by handle: Handle) {
        guard handle.awaitsFirstRead.load(ordering: .relaxed) else { return }
        handle.awaitsFirstRead.store(false, ordering: .relaxed)
        pageCachePolicy.begin(handle.node)
    }

    /// Notes that the kernel caches no more data for this handle: the handle is closed, or its open failed.
    func endPageCaching(of handle: Handle) {
        guard handle.fillsPageCache else { return }
        pageCachePolicy.close(handle.node)
    }
}
