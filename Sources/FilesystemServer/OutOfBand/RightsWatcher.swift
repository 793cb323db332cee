// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Detects changes of rights that programs make to the files below an in-place mount, through older descriptors.
///
/// After such a change, the kernel must drop the file's cached attributes, because the old attributes may permit accesses that
/// are now forbidden (D198). A thread makes the kernel do this soon after the change, but only where other users than the
/// mount's owner have access, and only in the source's own file system. In all other cases, attributes are valid for at most a
/// second: see ``AttributeReplies``.
final class RightsWatcher: Sendable {
    private enum State: UInt8 {
        case noticing
        /// The kernel drops events, because too many changes come. Until no more events are dropped, attributes are
        /// valid for only a second, and changes are not checked (D215).
        case overwhelmed
        case over
    }

    /// The pause before a read, in microseconds. All changes within this pause wake the thread only once.
    private static let momentMicroseconds: UInt32 = 1_000
    /// The pause between reads, in microseconds, while changes are read but not checked.
    private static let pauseMicroseconds: UInt32 = 1_000_000

    private let watch: ChangeWatch
    private let state = Atomic<UInt8>(State.noticing.rawValue)

    /// Returns nil if the daemon does not have root's rights, or if the kernel's events cannot identify directories.
    init?(of root: borrowing OwnedDescriptor) {
        do throws(Errno) { watch = try ChangeWatch(attributesIn: root) } catch { return nil }
    }

    /// Whether the thread detects changes of rights now. False while the kernel drops events, and after it has ended the watch.
    var isAtWork: Bool { state.load(ordering: .relaxed) == State.noticing.rawValue }

    private func become(_ new: State) { state.store(new.rawValue, ordering: .sequentiallyConsistent) }

    /// Reads and handles events as long as the process lives.
    func run(_ monitor: OutOfBandMonitor) {
        var (pace, gone) = (RightsThrottle(), MissingNames())
        do throws(Errno) {
            while true {
                if !pace.readsOn { pause(pace, gone) }
                let changes = try watch.read()
                pace.noteReading(of: changes.changes.count)
                take(changes, monitor, &pace, &gone)
                // The missing names are searched for after each read, even if the next read follows without a pause. So
                // programs that make very many changes cannot delay the search.
                look(for: &gone, monitor)
            }
        } catch {
            become(.over)
            monitor.invalidateAllAttributes()
            monitor.engine.log("rights that are changed around the mount are seen after 1 s: \(error)")
        }
    }

    /// Waits until there are events to read or names to search for. Then pauses for a short time, in which further events
    /// may arrive.
    private func pause(_ pace: RightsThrottle, _ gone: MissingNames) {
        let due = [pace.resumeAt, gone.dueFrom].compactMap(\.self).min()
        _ = watch.wait(until: due?.nanoseconds)
        usleep(pace.resumeAt == nil ? Self.momentMicroseconds : Self.pauseMicroseconds)
    }

    private func take(
        _ changes: ChangeWatch.Changes, _ monitor: OutOfBandMonitor, _ pace: inout RightsThrottle,
        _ gone: inout MissingNames
    ) {
        switch pace.step(hasOverflowed: changes.hasOverflowed || gone.isFull, at: Engine.now) {
        case .look:
            become(.noticing)
            look(at: changes, monitor, &gone)
        case .invalidateAll:
            // The state is set before the attributes are invalidated. So all attributes that the kernel gets after the
            // invalidation are valid for only a second.
            become(.overwhelmed)
            _ = gone.take()
            monitor.invalidateAllAttributes()
        case .drop: break
        }
    }

    private func look(for gone: inout MissingNames, _ monitor: OutOfBandMonitor) {
        let began = Engine.now
        guard let due = gone.dueFrom, began >= due else { return }
        monitor.invalidateAttributes(ofKnownBy: gone.take())
        gone.noteLook(from: began, to: Engine.now)
    }

    private func look(
        at changes: ChangeWatch.Changes, _ monitor: OutOfBandMonitor, _ gone: inout MissingNames
    ) {
        let own = OwnProcess.id
        var directories = ChangedDirectories(monitor)
        for change in changes.changes where change.process != own {
            guard case .handle(let handle) = change.directory, let directory = directories[handle] else {
                continue
            }
            monitor.invalidateAttributes(of: NameBytes(change.name), in: directory, orKnownBy: &gone)
        }
    }
}

/// Decides whether changes of rights are checked, or come too fast to be checked.
///
/// If a program changes very many files in a short time, the kernel drops events. Then all attributes are invalidated
/// once, which takes 0.2 s for 100,000 files that the kernel knows. After that, attributes are valid for only a second,
/// until the kernel has dropped no event for 5 s (D215).
struct RightsThrottle: Sendable {
    enum Step: Sendable { case look, invalidateAll, drop }

    private static let calm = TimeSpan.seconds(5)
    /// A read that returns this many events has probably not returned all events. The buffer has room for this many
    /// events with names of any length.
    static let many = 128
    /// The most reads in succession without a pause. Without this limit, the thread might occupy a processor all the
    /// time.
    private static let mostInARow = 16
    /// The most reads in succession without a pause, while changes are not checked. This number of reads empties the
    /// kernel's whole queue.
    private static let mostDroppedInARow = 128

    private var readingsInARow = 0
    /// Whether the next read follows without a pause, because more events may be waiting.
    var readsOn: Bool { readingsInARow > 0 }

    /// The time at which changes are checked again, if the kernel drops no more events until then. Nil while changes
    /// are checked.
    private(set) var resumeAt: Instant?

    /// Notes how many changes a read has returned.
    mutating func noteReading(of changes: Int) {
        let most = resumeAt == nil ? Self.mostInARow : Self.mostDroppedInARow
        let isLast = changes < Self.many || readingsInARow + 1 >= most
        readingsInARow = isLast ? 0 : readingsInARow + 1
    }

    /// Decides about changes that were just read: they are checked, they are dropped, or all attributes are
    /// invalidated.
    mutating func step(hasOverflowed: Bool, at now: Instant) -> Step {
        if hasOverflowed {
            let isFirst = resumeAt == nil
            resumeAt = now + Self.calm
            return isFirst ? .invalidateAll : .drop
        }
        guard let resumeAt, now < resumeAt else {
            resumeAt = nil
            return .look
        }
        return .drop
    }
}

/// The names at which a file's rights changed, and which now lead to another file or to no file.
///
/// There is a set of names for each directory. All sets together have at most about 4096 names.
private struct MissingNames {
    private static let most = 4096
    /// After a scan of all nodes, the pause until the next scan is this many times as long as the scan took.
    private static let restPerLook: UInt64 = 20
    private var names: [NodeID: Set<[UInt8]>] = [:]
    private var count = 0
    private var nextLook = Instant(nanoseconds: 0)

    var isFull: Bool { count >= Self.most }
    /// The earliest time for the next scan of all nodes; nil if there are no names to search for.
    var dueFrom: Instant? { count == 0 ? nil : nextLook }

    mutating func noteLook(from began: Instant, to end: Instant) {
        nextLook = end + TimeSpan(nanoseconds: end.since(began).nanoseconds * Self.restPerLook)
    }

    mutating func add(_ name: NameBytes, in directory: Node) {
        if names[directory.id, default: []].insert(name.bytes).inserted { count += 1 }
    }

    mutating func take() -> [NodeID: Set<[UInt8]>] {
        defer { (names, count) = ([:], 0) }
        return names
    }
}

/// A directory in which a file's rights changed.
///
/// `node` is nil if the kernel does not know the directory through the mount. The kernel may nevertheless know the
/// file, by a name in another directory.
private final class ChangedDirectory: Sendable {
    let descriptor: SharedDescriptor
    let node: Node?

    init(_ handle: PersistentFileHandle, _ monitor: OutOfBandMonitor) throws(Errno) {
        let budget = monitor.nodes.root.budget
        descriptor = SharedDescriptor(try budget.path(of: handle), of: budget)
        node = monitor.nodes[FileKey(try descriptor.descriptor.status())]
    }
}

/// The directories of the changes that one read has returned. Each directory is opened only once. The fact that a
/// directory is gone is remembered as well.
private struct ChangedDirectories {
    /// The most directories that are held open at the same time.
    private static let most = 32
    private let monitor: OutOfBandMonitor
    private var found: [PersistentFileHandle: ChangedDirectory?] = [:]

    init(_ monitor: OutOfBandMonitor) { self.monitor = monitor }

    /// Returns the directory that a file handle identifies, or nil if the directory was removed.
    subscript(handle: PersistentFileHandle) -> ChangedDirectory? {
        mutating get {
            if let known = found[handle] { return known }
            if found.count >= Self.most { found.removeAll() }
            let directory: ChangedDirectory?
            do throws(Errno) { directory = try ChangedDirectory(handle, monitor) } catch {
                directory = nil
            }
            found[handle] = .some(directory)
            return directory
        }
    }
}

extension OutOfBandMonitor {
    /// Invalidates the attributes of the file under a name.
    ///
    /// The name may have got another file since the change, or may have none. The name is then added to `gone`, because
    /// the kernel may still know the changed file by this name.
    fileprivate func invalidateAttributes(
        of name: NameBytes, in directory: ChangedDirectory, orKnownBy gone: inout MissingNames
    ) {
        guard !name.bytes.isEmpty else {
            if let node = directory.node { connection.invalidateAttributes(of: node.id) }
            return
        }
        let status: FileStatus?
        do throws(Errno) {
            status = try name.withName { (name) throws(Errno) in
                try directory.descriptor.descriptor.cachedStatus(of: name)
            }
        } catch { status = nil }
        let node = status.flatMap { nodes[FileKey($0)] }
        if let node { connection.invalidateAttributes(of: node.id) }
        guard let parent = directory.node, node?.isCalled(name, in: parent) != true else { return }
        gone.add(name, in: parent)
    }

    /// Invalidates the attributes of all files that the kernel has known by these names. All nodes are checked, because
    /// no table lists the nodes of a directory.
    fileprivate func invalidateAttributes(ofKnownBy names: [NodeID: Set<[UInt8]>]) {
        for node in nodes.all where node.isKnown(byOneOf: names) {
            connection.invalidateAttributes(of: node.id)
        }
    }

    /// Invalidates the attributes of all files, because the kernel has dropped events or will report no more events.
    fileprivate func invalidateAllAttributes() {
        for node in nodes.all where !node.isOnSubmount { connection.invalidateAttributes(of: node.id) }
    }
}

extension Node {
    fileprivate func isKnown(byOneOf names: [NodeID: Set<[UInt8]>]) -> Bool {
        wasKnown { name, directory in names[directory.id]?.contains(name.bytes) == true }
    }
}
