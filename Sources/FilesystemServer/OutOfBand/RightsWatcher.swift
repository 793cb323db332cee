// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Detects out-of-band changes of rights below an in-place mount, made through older descriptors.
///
/// The kernel's attributes of such a file are invalidated within a moment, so that they no longer permit accesses (D198).
/// Needed only where other users than the one that mounted have access, and only in the source's own file system.
/// Elsewhere, attributes are valid for at most a second: see ``AttributeReplies``.
final class RightsWatcher: Sendable {
    private enum State: UInt8 {
        case noticing
        /// The kernel drops events: attributes are valid for a second, and changes are not checked (D215).
        case overwhelmed
        case over
    }

    /// Changes within this time are checked together, so that the daemon's own changes wake the thread less often.
    private static let momentMicroseconds: UInt32 = 1_000
    /// The pause between reads while changes are dropped.
    private static let pauseMicroseconds: UInt32 = 1_000_000

    private let watch: ChangeWatch
    private let state = Atomic<UInt8>(State.noticing.rawValue)

    /// Nil without root's rights, or if events cannot name directories.
    init?(of root: borrowing OwnedDescriptor) {
        do throws(Errno) { watch = try ChangeWatch(attributesIn: root) } catch { return nil }
    }

    /// Whether changes are detected.
    var isAtWork: Bool { state.load(ordering: .relaxed) == State.noticing.rawValue }

    private func become(_ new: State) { state.store(new.rawValue, ordering: .sequentiallyConsistent) }

    /// Runs as long as the process lives.
    func run(_ monitor: OutOfBandMonitor) {
        var (pace, gone) = (RightsThrottle(), MissingNames())
        do throws(Errno) {
            while true {
                if !pace.readsOn { pause(pace, gone) }
                let changes = try watch.read()
                pace.noteReading(of: changes.changes.count)
                take(changes, monitor, &pace, &gone)
                // Also done between reads without a pause, so that programs with very many changes cannot delay it.
                look(for: &gone, monitor)
            }
        } catch {
            become(.over)
            monitor.invalidateAllAttributes()
            monitor.engine.log("rights that are changed around the mount are seen after 1 s: \(error)")
        }
    }

    /// Waits until there are events to read or names to check.
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
            // Set first: attributes that the kernel receives from now on are valid for only a second.
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

/// Decides whether changes of rights are checked, or are too many for that.
///
/// The kernel drops events if a program changes very many files at once. Then all attributes are invalidated, which takes
/// 0.2 s if the kernel knows 100,000 files. So this is done once. Until no events were lost for a while, attributes are
/// valid for a second (D215).
struct RightsThrottle: Sendable {
    enum Step: Sendable { case look, invalidateAll, drop }

    private static let calm = TimeSpan.seconds(5)
    /// After so many events in one read, more may be waiting: that many always fit, however long their names are.
    static let many = 128
    /// The most reads without a pause, or else the thread might occupy a processor.
    private static let mostInARow = 16
    /// The same limit while changes are dropped: it covers the kernel's whole queue.
    private static let mostDroppedInARow = 128

    private var readingsInARow = 0
    /// Whether to read again at once, without a pause.
    var readsOn: Bool { readingsInARow > 0 }

    /// When checks begin again if no more events are lost; nil if changes are being checked.
    private(set) var resumeAt: Instant?

    /// Notes the number of changes in one read.
    mutating func noteReading(of changes: Int) {
        let most = resumeAt == nil ? Self.mostInARow : Self.mostDroppedInARow
        let isLast = changes < Self.many || readingsInARow + 1 >= most
        readingsInARow = isLast ? 0 : readingsInARow + 1
    }

    /// Decides how to treat changes that were read.
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

/// Changed names that are missing now, by directory. Holds at most 4096, and those of one more read.
private struct MissingNames {
    private static let most = 4096
    /// After a scan of all nodes, the pause is so many times as long as the scan.
    private static let restPerLook: UInt64 = 20
    private var names: [NodeID: Set<[UInt8]>] = [:]
    private var count = 0
    private var nextLook = Instant(nanoseconds: 0)

    var isFull: Bool { count >= Self.most }
    /// When all nodes are to be scanned; nil if there are no names.
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

/// A directory with a changed name. The kernel may not know it through the mount: a known file may have another name there.
private final class ChangedDirectory: Sendable {
    let descriptor: SharedDescriptor
    let node: Node?

    init(_ handle: PersistentFileHandle, _ monitor: OutOfBandMonitor) throws(Errno) {
        let budget = monitor.nodes.root.budget
        descriptor = SharedDescriptor(try budget.path(of: handle), of: budget)
        node = monitor.nodes[FileKey(try descriptor.descriptor.status())]
    }
}

/// The directories of one read. Each is opened once, whether it is found or not.
private struct ChangedDirectories {
    /// The most directories that are open at once.
    private static let most = 32
    private let monitor: OutOfBandMonitor
    private var found: [PersistentFileHandle: ChangedDirectory?] = [:]

    init(_ monitor: OutOfBandMonitor) { self.monitor = monitor }

    /// Nil for a directory that was removed.
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
    /// Invalidates the attributes of the file under a name. If another file is there now, the changed file may still be
    /// known by the name.
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

    /// Scans all nodes, since no table lists the nodes in a directory.
    fileprivate func invalidateAttributes(ofKnownBy names: [NodeID: Set<[UInt8]>]) {
        for node in nodes.all where node.isKnown(byOneOf: names) {
            connection.invalidateAttributes(of: node.id)
        }
    }

    /// Invalidates all attributes after the kernel has lost events, or reports no more.
    fileprivate func invalidateAllAttributes() {
        for node in nodes.all where !node.isOnSubmount { connection.invalidateAttributes(of: node.id) }
    }
}

extension Node {
    fileprivate func isKnown(byOneOf names: [NodeID: Set<[UInt8]>]) -> Bool {
        wasKnown { name, directory in names[directory.id]?.contains(name.bytes) == true }
    }
}
