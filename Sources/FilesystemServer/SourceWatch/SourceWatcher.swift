// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Watches a source that other programs can change out of band.
///
/// With root's rights, and if the file system has file handles for directories, the kernel reports changes of the whole
/// file system. Otherwise each directory that the kernel knows through the mount is watched, up to the user's limit.
/// The directories above followed documents are always watched.
///
/// Submounts are never watched. A submount might not answer, and would then block the thread that handles changes.
final class SourceWatcher: NodeObserver {
    private struct State {
        var directories: [Int32: Node] = [:]
        var watches: [NodeID: Int32] = [:]
        var shortage: String?
        /// The former names of nodes that a lookup has found under a new name.
        var formerNames: [NodeID: FormerName] = [:]
    }

    private struct FormerName {
        let name: NameBytes
        let directory: Node
        let noted: Instant
    }

    /// The most directories that are watched. Each watch takes about 1 KiB of the kernel's memory.
    private static let mostWatches = 65_536

    private static let mostFormerNames = 4096
    /// How long a former name is remembered. This is longer than the quiet period that the daemon waits before a
    /// report.
    private static let memory = TimeSpan.seconds(5)

    /// The kernel's events about the source; nil if nothing can be watched.
    let watch: ChangeWatch?
    let own = OwnChanges(at: Engine.now)
    /// How many times the kernel has got to know a directory through the mount.
    let arrivals = Atomic<UInt64>(0)
    /// `changes`: how many out-of-band changes the daemon has seen. `losses`: how many times the kernel has dropped events.
    let changes = Atomic<UInt64>(0)
    let losses = Atomic<UInt64>(0)
    private let state = Mutex(State())
    private let log: @Sendable (String) -> Void

    init(
        of root: borrowing OwnedDescriptor, hasHandles: Bool, log: @escaping @Sendable (String) -> Void
    ) {
        self.log = log
        if hasHandles, let watch = Self.watchFileSystem(of: root) {
            self.watch = watch
            return
        }
        do throws(Errno) {
            watch = try ChangeWatch()
        } catch {
            watch = nil
            report("\(error)")
        }
    }

    private static func watchFileSystem(of root: borrowing OwnedDescriptor) -> ChangeWatch? {
        // Without root's rights, or without file handles for directories, this fails. Each directory is then watched
        // separately.
        do throws(Errno) { return try ChangeWatch(fileSystemOf: root) } catch { return nil }
    }

    /// Begins to watch a directory that the kernel has just looked up through the mount.
    func startWatching(_ node: Node) {
        arrivals.add(1, ordering: .sequentiallyConsistent)
        guard let watch, watch.kind == .inotify, !node.isOnSubmount else { return }
        do throws(Errno) {
            let descriptor = try node.descriptor()
            // The watch is added under the lock. Without the lock, another thread that removes the watch of an older
            // node of the same directory could remove this watch.
            try state.withLock { (state) throws(Errno) in
                guard state.watches.count < Self.mostWatches else { throw Errno(rawValue: ENOSPC) }
                let number = try watch.add(descriptor.descriptor)
                state.directories[number] = node
                state.watches[node.id] = number
            }
        } catch {
            // These errors do no harm. A removed directory does not change any more, and a user without the right to
            // list a directory sees no changes of its names.
            guard error != .noEntry, error != .stale, error != .noAccess else { return }
            report(
                error.rawValue == ENOSPC
                    ? "there are more directories than a user may watch"
                    : "a directory cannot be watched: \(error)")
        }
    }

    /// Stops watching a directory, because the kernel has forgotten it.
    func stopWatching(_ node: Node) {
        guard let watch, watch.kind == .inotify else { return }
        state.withLock { state in
            guard let number = state.watches[node.id], state.directories[number] === node else { return }
            state.watches[node.id] = nil
            state.directories[number] = nil
            watch.remove(number)
        }
    }

    func directory(watchedAs number: Int32) -> Node? { state.withLock { $0.directories[number] } }

    /// Removes the record of a watch that the kernel has ended because its directory was removed.
    func removeWatch(_ number: Int32) {
        let node: Node? = state.withLock { state in
            guard let node = state.directories.removeValue(forKey: number) else { return nil }
            if state.watches[node.id] == number { state.watches[node.id] = nil }
            return node
        }
        withExtendedLifetime(node) {}
    }

    /// Remembers the name that a node had until a lookup found it under a new name.
    ///
    /// The daemon reports the move when the event of the move comes, and the report needs the former name. The lookup
    /// may come before the event.
    func noteFormerName(of node: Node, ifOther name: NameBytes, in directory: Node) {
        guard !node.isCalled(name, in: directory) else { return }
        let (formerName, parent, hasName) = node.location
        guard hasName, let parent else { return }
        let former = FormerName(name: formerName, directory: parent, noted: Engine.now)
        let forgotten: [NodeID: FormerName] = state.withLock { state in
            var forgotten: [NodeID: FormerName] = [:]
            if state.formerNames.count >= Self.mostFormerNames {
                (forgotten, state.formerNames) = (state.formerNames, [:])
            }
            if state.formerNames[node.id].map({ former.noted.since($0.noted) > Self.memory }) ?? true {
                state.formerNames[node.id] = former
            }
            return forgotten
        }
        withExtendedLifetime(forgotten) {}
    }

    /// Returns the former name of a node that a lookup has lately found under a new name. Forgets this former name.
    /// Returns nil if there is none.
    func takeFormerName(of node: Node) -> (name: NameBytes, directory: Node)? {
        let former = state.withLock { $0.formerNames.removeValue(forKey: node.id) }
        guard let former, !(Engine.now.since(former.noted) > Self.memory) else { return nil }
        return (former.name, former.directory)
    }

    /// The nodes that a lookup has found under a new name, by their former names.
    var formerNames: [EntryName: NodeID] {
        let former = state.withLock { $0.formerNames }
        return former.reduce(into: [:]) { names, entry in
            names[EntryName(entry.value.name, in: entry.value.directory)] = entry.key
        }
    }

    /// Notes a reason why the daemon does not notice some changes. Only the first reason is logged and shown in the
    /// watch report.
    func report(_ shortage: String) {
        let isFirst = state.withLock { state in
            defer { if state.shortage == nil { state.shortage = shortage } }
            return state.shortage == nil
        }
        if isFirst {
            log("not all changes around the mount are noticed: \(shortage); what is shown may be 1 s old")
        }
    }

    var watchReport: SourceWatchReport {
        var report = SourceWatchReport()
        report.means = watch?.kind.rawValue ?? "none"
        report.shortage = state.withLock { $0.shortage }
        report.changes = changes.load(ordering: .relaxed)
        report.losses = losses.load(ordering: .relaxed)
        return report
    }
}
