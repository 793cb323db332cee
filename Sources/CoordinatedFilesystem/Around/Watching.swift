// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Reads what is changed around the mount, on a thread of its own.
///
/// The kernel is told within a moment that it knows something no more, and those who show a document when it is quiet
/// there. To tell the kernel may take as long as a request that holds the directory's lock, which therefore must not
/// wait for this thread; if it takes so long that the kernel has more changes than it keeps, everything is looked at.
final class Watching: Sendable {
    /// What is changed again and again in this time is looked at once.
    private static let moment = Span.milliseconds(10)
    /// So many at once, however fast more come.
    private static let batch = 4096

    private let filesystem: CoordinatedFilesystem
    private let surroundings: Surroundings
    private let watch: ChangeWatch

    init?(_ filesystem: CoordinatedFilesystem) {
        guard let surroundings = filesystem.surroundings, let watch = surroundings.watch else { return nil }
        (self.filesystem, self.surroundings, self.watch) = (filesystem, surroundings, watch)
    }

    /// For as long as the process lives.
    func run() {
        var (seen, ignored) = (SeenChanges(), IgnoredDirectories())
        do throws(Errno) {
            while true {
                let hasOwn = surroundings.own.forget(at: Engine.now)
                let idle = hasOwn ? Engine.now + OwnChanges.period + .milliseconds(1) : nil
                if watch.wait(until: [seen.due, idle].compactMap(\.self).min()?.nanoseconds) {
                    let changes = try gather()
                    take(changes, &seen, &ignored)
                }
                guard let due = seen.due, due <= Engine.now else { continue }
                seen = tell(of: seen)
            }
        } catch {
            surroundings.report("they are told no more: \(error)")
        }
    }

    private func gather() throws(Errno) -> ChangeWatch.Changes {
        let end = Engine.now + Self.moment
        var all = try watch.read()
        while all.changes.count < Self.batch, watch.wait(until: end.nanoseconds) {
            let more = try watch.read()
            all.changes += more.changes
            all.ended += more.ended
            all.hasLost = all.hasLost || more.hasLost
        }
        return all
    }

    /// Tells the kernel what it knows no more, and notes what is to be told.
    private func take(
        _ changes: ChangeWatch.Changes, _ seen: inout SeenChanges, _ ignored: inout IgnoredDirectories
    ) {
        if changes.hasLost {
            surroundings.losses.add(1, ordering: .relaxed)
            filesystem.engine.log(
                "more happened around the mount than the kernel kept: all is looked at again")
            seen.overflow()
            filesystem.doubtAll()
        }
        let isAttended = filesystem.engine.isAttended
        ignored.renew(
            arrivals: surroundings.arrivals.load(ordering: .sequentiallyConsistent), isAttended: isAttended)
        let own = OwnProcess.id
        var batch = SeenChanges()
        var known: [ChangeWatch.Directory: Node] = [:]
        for change in changes.changes where change.process != own {
            let directory = known[change.directory] ?? find(change.directory, isAttended, &ignored)
            // A directory that is moved takes along what is in it.
            if change.what.isSuperset(of: [.directory, .appeared]) { ignored.removeAll() }
            guard let directory else { continue }
            known[change.directory] = directory
            let touch = SeenChanges.Touch(
                directory: directory, name: NameBytes(change.name), what: change.what)
            batch.add(touch)
        }
        if batch.hasLost { seen.overflow() }
        let writers = batch.isEmpty ? [] : filesystem.handles.writtenNodes
        for touch in batch.touchesInOrder {
            filesystem.takeChange(touch, isNamed: watch.kind == .fanotify, besides: writers, &seen)
        }
        for number in changes.ended { surroundings.ended(number) }
        seen.noteTime(Engine.now)
    }

    private func find(
        _ directory: ChangeWatch.Directory, _ isAttended: Bool, _ ignored: inout IgnoredDirectories
    ) -> Node? {
        switch directory {
        case .watch(let number): return surroundings.directory(watchedAs: number)
        case .handle(let handle):
            if ignored.contains(handle) { return nil }
            let node = filesystem.directory(of: handle, isAttended: isAttended)
            if node == nil { ignored.insert(handle) }
            return node
        }
    }

    /// Returns what is to be told later.
    private func tell(of seen: SeenChanges) -> SeenChanges {
        var later = SeenChanges()
        filesystem.tell(of: seen, later: &later)
        later.noteTime(Engine.now + OwnChanges.moment)
        return later
    }
}

/// Directories of the file system that concern nobody here, most of them not below the source.
private struct IgnoredDirectories {
    private static let capacity = 4096
    private var handles: Set<FileHandle> = []
    private var arrivals: UInt64 = 0
    private var isAttended = false

    /// What was unknown may be known by now, and concern somebody.
    mutating func renew(arrivals: UInt64, isAttended: Bool) {
        if arrivals != self.arrivals || isAttended != self.isAttended { removeAll() }
        (self.arrivals, self.isAttended) = (arrivals, isAttended)
    }

    func contains(_ handle: FileHandle) -> Bool { handles.contains(handle) }

    mutating func insert(_ handle: FileHandle) {
        if handles.count >= Self.capacity { removeAll() }
        handles.insert(handle)
    }

    mutating func removeAll() { handles.removeAll(keepingCapacity: true) }
}
