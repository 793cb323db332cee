// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import LinuxSystem
import Synchronization

/// Reads the kernel's events about out-of-band changes, on a thread of its own.
///
/// The thread first invalidates the kernel's caches. After a quiet period it tells presenters of the changes.
///
/// An invalidation may wait for a request that holds the directory's lock. So such a request must not wait for this
/// thread. If the invalidation takes so long that the kernel drops events, the thread checks all followed files.
final class SourceWatchThread: Sendable {
    /// Events that come within this time are handled together. If the same file changes several times, it is checked
    /// only once.
    private static let moment = TimeSpan.milliseconds(10)
    /// After this many events the thread stops reading and handles them, even if more events are waiting.
    private static let batch = 4096

    private let monitor: OutOfBandMonitor
    private let sourceWatcher: SourceWatcher
    private let watch: ChangeWatch

    init?(_ monitor: OutOfBandMonitor) {
        guard let sourceWatcher = monitor.sourceWatcher, let watch = sourceWatcher.watch else {
            return nil
        }
        (self.monitor, self.sourceWatcher, self.watch) = (monitor, sourceWatcher, watch)
    }

    /// Handles events as long as the process lives.
    func run() {
        var (seen, ignored) = (OutOfBandChanges(), IgnoredDirectories())
        do throws(Errno) {
            while true {
                let hasOwn = sourceWatcher.own.forget(at: Engine.now)
                let idle = hasOwn ? Engine.now + OwnChanges.period + .milliseconds(1) : nil
                if watch.wait(until: [seen.due, idle].compactMap(\.self).min()?.nanoseconds) {
                    let changes = try gather()
                    take(changes, &seen, &ignored)
                }
                guard let due = seen.due, due <= Engine.now else { continue }
                seen = tell(of: seen)
            }
        } catch {
            sourceWatcher.report("the kernel reports no more of them: \(error)")
        }
    }

    private func gather() throws(Errno) -> ChangeWatch.Changes {
        let end = Engine.now + Self.moment
        var all = try watch.read()
        while all.changes.count < Self.batch, watch.wait(until: end.nanoseconds) {
            let more = try watch.read()
            all.changes += more.changes
            all.ended += more.ended
            all.hasOverflowed = all.hasOverflowed || more.hasOverflowed
        }
        return all
    }

    /// Invalidates the kernel's caches after these changes, and adds the changes to `seen` for the report.
    private func take(
        _ changes: ChangeWatch.Changes, _ seen: inout OutOfBandChanges, _ ignored: inout IgnoredDirectories
    ) {
        if changes.hasOverflowed {
            sourceWatcher.losses.add(1, ordering: .relaxed)
            monitor.engine.log(
                "the kernel lost changes around the mount: everything is checked again")
            seen.overflow()
            monitor.invalidateAll()
        }
        let hasAwareClients = monitor.engine.hasAwareClients
        ignored.renew(
            arrivals: sourceWatcher.arrivals.load(ordering: .sequentiallyConsistent),
            hasAwareClients: hasAwareClients)
        let own = OwnProcess.id
        var batch = OutOfBandChanges()
        var known: [ChangeWatch.Directory: Node] = [:]
        for change in changes.changes where change.process != own {
            let directory = known[change.directory] ?? find(change.directory, hasAwareClients, &ignored)
            // A directory was moved into the source. It may contain directories that were ignored until now.
            if change.mask.isSuperset(of: [.directory, .appeared]) { ignored.removeAll() }
            guard let directory else { continue }
            known[change.directory] = directory
            let dirtyName = OutOfBandChanges.DirtyName(
                directory: directory, name: NameBytes(change.name), mask: change.mask)
            batch.add(dirtyName)
        }
        if batch.hasOverflowed { seen.overflow() }
        let writers = batch.isEmpty ? [] : monitor.handles.writtenNodes
        for dirtyName in batch.dirtyNamesInOrder {
            monitor.recordChange(dirtyName, isNamed: watch.kind == .fanotify, besides: writers, &seen)
        }
        for number in changes.ended { sourceWatcher.removeWatch(number) }
        seen.noteTime(Engine.now)
    }

    private func find(
        _ directory: ChangeWatch.Directory, _ hasAwareClients: Bool, _ ignored: inout IgnoredDirectories
    ) -> Node? {
        switch directory {
        case .watch(let number): return sourceWatcher.directory(watchedAs: number)
        case .handle(let handle):
            if ignored.contains(handle) { return nil }
            let node = monitor.directory(of: handle, hasAwareClients: hasAwareClients)
            if node == nil { ignored.insert(handle) }
            return node
        }
    }

    /// Reports changes. Returns the changes that are to be reported later.
    private func tell(of seen: OutOfBandChanges) -> OutOfBandChanges {
        var later = OutOfBandChanges()
        monitor.tell(of: seen, later: &later)
        later.noteTime(Engine.now + OwnChanges.moment)
        return later
    }
}

/// Directories in which changes need no report. Most of them are outside the source, but on the same file system.
private struct IgnoredDirectories {
    private static let capacity = 4096
    private var handles: Set<PersistentFileHandle> = []
    private var arrivals: UInt64 = 0
    private var hasAwareClients = false

    /// Forgets all ignored directories when the kernel gets to know a new directory, or when the first client appears
    /// or the last one goes. An ignored directory may then need reports.
    mutating func renew(arrivals: UInt64, hasAwareClients: Bool) {
        if arrivals != self.arrivals || hasAwareClients != self.hasAwareClients { removeAll() }
        (self.arrivals, self.hasAwareClients) = (arrivals, hasAwareClients)
    }

    func contains(_ handle: PersistentFileHandle) -> Bool { handles.contains(handle) }

    mutating func insert(_ handle: PersistentFileHandle) {
        if handles.count >= Self.capacity { removeAll() }
        handles.insert(handle)
    }

    mutating func removeAll() { handles.removeAll(keepingCapacity: true) }
}
