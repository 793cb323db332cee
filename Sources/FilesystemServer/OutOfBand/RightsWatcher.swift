// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Changes of rights that a program makes around a mount in place, by what it had open before: the kernel is told within a
/// moment that what it knows of a file's attributes is out of date, and lets nobody in by them any more (D198).
///
/// Only where others than the one user who mounted may use the mount, and only of the source's own file system. What cannot
/// be noticed is believed for a second at most: see ``CoordinatedFilesystem/attributeValidity(of:)``.
final class RightsWatcher: Sendable {
    private enum State: UInt8 {
        case noticing
        /// More is changed than the kernel keeps: attributes are believed for a second, and no change is looked at (D215).
        case overwhelmed
        case over
    }

    /// What changes in this time is looked at once, so that what the daemon changes itself wakes it less often.
    private static let momentMicroseconds: UInt32 = 1_000
    /// How often changes are thrown away that are not looked at.
    private static let pauseMicroseconds: UInt32 = 1_000_000

    private let watch: ChangeWatch
    private let state = Atomic<UInt8>(State.noticing.rawValue)

    /// Nil where root's rights, or names for directories, are missing.
    init?(of root: borrowing OwnedDescriptor) {
        do throws(Errno) { watch = try ChangeWatch(attributesIn: root) } catch { return nil }
    }

    /// Whether changes are noticed.
    var isAtWork: Bool { state.load(ordering: .relaxed) == State.noticing.rawValue }

    private func become(_ new: State) { state.store(new.rawValue, ordering: .sequentiallyConsistent) }

    /// For as long as the process lives.
    func run(_ filesystem: CoordinatedFilesystem) {
        var (pace, gone) = (RightsThrottle(), MissingNames())
        do throws(Errno) {
            while true {
                if !pace.readsOn { pause(pace, gone) }
                let changes = try watch.read()
                pace.noteReading(of: changes.changes.count)
                take(changes, filesystem, &pace, &gone)
                // Also while more is read without a pause: those that change very much are not to put this off.
                look(for: &gone, filesystem)
            }
        } catch {
            become(.over)
            filesystem.invalidateAllAttributes()
            filesystem.engine.log("rights that are changed around the mount are seen after 1 s: \(error)")
        }
    }

    /// Until there is something to read or to do.
    private func pause(_ pace: RightsThrottle, _ gone: MissingNames) {
        let due = [pace.resumeAt, gone.dueFrom].compactMap(\.self).min()
        _ = watch.wait(until: due?.nanoseconds)
        usleep(pace.resumeAt == nil ? Self.momentMicroseconds : Self.pauseMicroseconds)
    }

    private func take(
        _ changes: ChangeWatch.Changes, _ filesystem: CoordinatedFilesystem, _ pace: inout RightsThrottle,
        _ gone: inout MissingNames
    ) {
        switch pace.step(hasOverflowed: changes.hasOverflowed || gone.isFull, at: Engine.now) {
        case .look:
            become(.noticing)
            look(at: changes, filesystem, &gone)
        case .invalidateAll:
            // First: what the kernel is told from here on it believes for a second only.
            become(.overwhelmed)
            _ = gone.take()
            filesystem.invalidateAllAttributes()
        case .drop: break
        }
    }

    private func look(for gone: inout MissingNames, _ filesystem: CoordinatedFilesystem) {
        let began = Engine.now
        guard let due = gone.dueFrom, began >= due else { return }
        filesystem.invalidateAttributes(ofKnownBy: gone.take())
        gone.noteLook(from: began, to: Engine.now)
    }

    private func look(
        at changes: ChangeWatch.Changes, _ filesystem: CoordinatedFilesystem, _ gone: inout MissingNames
    ) {
        let own = OwnProcess.id
        var directories = ChangedDirectories(filesystem)
        for change in changes.changes where change.process != own {
            guard case .handle(let handle) = change.directory, let directory = directories[handle] else {
                continue
            }
            filesystem.invalidateAttributes(of: NameBytes(change.name), in: directory, orKnownBy: &gone)
        }
    }
}

/// When changes of rights are looked at, and when there are too many for that.
///
/// The kernel drops its news if a program changes very many files at once. To doubt all attributes then takes a fifth of a second where the kernel knows
/// 100,000 files, so it is done once; until no more is lost for a while, attributes are believed for a second (D215).
struct RightsThrottle: Sendable {
    enum Step: Sendable { case look, invalidateAll, drop }

    private static let calm = TimeSpan.seconds(5)
    /// After a reading of so many there may be more: that many fit into one, however long their names are.
    static let many = 128
    /// So many readings follow each other without a pause, or else the thread might take a processor for itself.
    private static let mostInARow = 16
    /// The same while changes are dropped: all that the kernel keeps.
    private static let mostDroppedInARow = 128

    private var readingsInARow = 0
    /// Whether more is read at once, without a pause.
    var readsOn: Bool { readingsInARow > 0 }

    /// When changes are looked at again, if no more of them are lost; nil if they are looked at.
    private(set) var resumeAt: Instant?

    /// So many changes were read at once.
    mutating func noteReading(of changes: Int) {
        let most = resumeAt == nil ? Self.mostInARow : Self.mostDroppedInARow
        let isLast = changes < Self.many || readingsInARow + 1 >= most
        readingsInARow = isLast ? 0 : readingsInARow + 1
    }

    /// What becomes of changes that were read.
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

/// Names under which something was changed that is not there any more, by their directories: 4096 and those of one reading at most.
private struct MissingNames {
    private static let most = 4096
    /// A look at all nodes is followed by so many times as long without one.
    private static let restPerLook: UInt64 = 20
    private var names: [NodeID: Set<[UInt8]>] = [:]
    private var count = 0
    private var nextLook = Instant(nanoseconds: 0)

    var isFull: Bool { count >= Self.most }
    /// When all nodes are to be looked at; nil if there are no names.
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

/// A directory in which something was changed, which the kernel need not know through the mount: a file may have another name there.
private final class ChangedDirectory: Sendable {
    let descriptor: SharedDescriptor
    let node: Node?

    init(_ handle: PersistentFileHandle, _ filesystem: CoordinatedFilesystem) throws(Errno) {
        let budget = filesystem.nodes.root.budget
        descriptor = SharedDescriptor(try budget.path(of: handle), of: budget)
        node = filesystem.nodes[FileKey(try descriptor.descriptor.status())]
    }
}

/// Those of one reading, each opened once, whether it is found or not.
private struct ChangedDirectories {
    /// So many are open at once.
    private static let most = 32
    private let filesystem: CoordinatedFilesystem
    private var found: [PersistentFileHandle: ChangedDirectory?] = [:]

    init(_ filesystem: CoordinatedFilesystem) { self.filesystem = filesystem }

    /// Nil for one that is gone.
    subscript(handle: PersistentFileHandle) -> ChangedDirectory? {
        mutating get {
            if let known = found[handle] { return known }
            if found.count >= Self.most { found.removeAll() }
            let directory: ChangedDirectory?
            do throws(Errno) { directory = try ChangedDirectory(handle, filesystem) } catch {
                directory = nil
            }
            found[handle] = .some(directory)
            return directory
        }
    }
}

extension CoordinatedFilesystem {
    /// How long the kernel may believe attributes, by which it lets programs in.
    func attributeValidity(of node: Node) -> Validity {
        let valid = validity(of: node)
        guard configuration.isInPlace, configuration.allowOther, valid.seconds > Validity.brief.seconds else {
            return valid
        }
        let isNoticed = !node.isOnSubmount && rightsWatcher?.isAtWork ?? false
        return isNoticed ? valid : .brief
    }

    /// If something else is under the name by now, the file that was changed may still be known by it.
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

    /// A look at each node: no table says what is in a directory.
    fileprivate func invalidateAttributes(ofKnownBy names: [NodeID: Set<[UInt8]>]) {
        for node in nodes.all where node.isKnown(byOneOf: names) {
            connection.invalidateAttributes(of: node.id)
        }
    }

    /// The kernel has lost changes, or notices none any more.
    fileprivate func invalidateAllAttributes() {
        for node in nodes.all where !node.isOnSubmount { connection.invalidateAttributes(of: node.id) }
    }
}

extension Node {
    fileprivate func isKnown(byOneOf names: [NodeID: Set<[UInt8]>]) -> Bool {
        state.withLock { state in
            if let parent = state.parent, names[parent.id]?.contains(state.name.bytes) == true { return true }
            return state.otherNames.contains { names[$0.directory.id]?.contains($0.name.bytes) == true }
        }
    }
}
