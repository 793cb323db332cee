// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Who moves a file's data is decided per inode when it is opened first, and holds while it is open:
/// the kernel answers EIO to handles of one inode in two modes.
extension CoordinatedFilesystem {
    func enterRoute(
        _ handle: Handle, through descriptor: SharedDescriptor, knowing status: FileStatus?,
        isNew: Bool, for reply: borrowing Reply
    ) throws(Errno) -> DataRoute {
        let node = handle.node
        let known: DataRoute? = node.state.withLock { state in
            guard state.opens > 0, let route = state.dataRoute else { return nil }
            return state.enter(handle, by: route)
        }
        let route: DataRoute
        if let known {
            route = known
        } else {
            route = try newRoute(for: handle, through: descriptor, knowing: status, for: reply)
        }
        routeStatistics.entered()
        // What was answered before is believed for long; of a new file nothing was.
        if case .backing = route, handle.mayBeMapped, !isNew { connection.invalidateAttributes(of: node.id) }
        return route
    }

    /// Nobody has the file open, so that what it was backed by may be closed until the open counts.
    private func newRoute(
        for handle: Handle, through descriptor: SharedDescriptor, knowing status: FileStatus?,
        for reply: borrowing Reply
    ) throws(Errno) -> DataRoute {
        while true {
            let wanted = try chooseRoute(of: handle.node, through: descriptor, knowing: status, for: reply)
            let entered: DataRoute? = handle.node.state.withLock { state in
                // Another thread may have decided meanwhile: then its choice holds.
                let route = state.dataRoute ?? wanted
                if case .backing(let backing) = route, state.usableBacking?.rawValue != backing.rawValue {
                    return nil
                }
                return state.enter(handle, by: route)
            }
            if let entered { return entered }
        }
    }

    /// Whether it is known that the kernel moves a file's data by what it was given, so that letting somebody in opens nothing
    /// here, and nothing as somebody else.
    func isPassthrough(_ node: Node) -> Bool {
        dataPath == .passthrough
            && node.state.withLock { $0.mayBypass == true && $0.backing != nil && !$0.isBackingOutdated }
    }

    /// Which way data goes, for people.
    var dataPath: DataPath { configuration.data == .daemon ? .daemon : routeStatistics.dataPath }

    func leaveRoute(_ handle: Handle) {
        let node = handle.node
        let wasLastMapper = node.state.withLock { $0.leave(handle) }
        routeStatistics.left()
        node.closeBackingIfUnused()
        // What was answered before the last store to a mapping does not hold any more.
        if wasLastMapper { connection.invalidateAttributes(of: node.id) }
    }

    /// How long whoever asks may believe the attributes of a node.
    func validity(of node: Node, to thread: Int32) -> Validity {
        cappedValidity(node, retries.validity(attributeValidity(of: node), to: thread, about: node.id))
    }

    /// Who stores to a shared mapping of a file whose data the kernel moves tells nobody: as long as there may be one,
    /// nobody is to believe the file's times (D87).
    ///
    /// Nor is anybody to believe what the file of a document with unsaved changes looks like (D168).
    func cappedValidity(_ node: Node, _ valid: Validity) -> Validity {
        if node.state.withLock({ $0.mappers > 0 }) { return .none }
        return engine.isAnythingUnsaved && engine.isUnsaved(node.item) ? .none : valid
    }

    private func chooseRoute(
        of node: Node, through descriptor: SharedDescriptor, knowing status: FileStatus?,
        for reply: borrowing Reply
    ) throws(Errno) -> DataRoute {
        // The kernel would not say at close(2) what a distant file system says then.
        guard configuration.data == .automatic, agreement().contains(.passthrough), node.kind == S_IFREG,
            routeStatistics.mayRegister, node.isMachineLocal
        else {
            return .daemon
        }
        guard try isBypassAllowed(for: node, through: descriptor, knowing: status) else { return .daemon }
        let (known, ownerChanges) = node.state.withLock { ($0.usableBacking, $0.ownerChanges) }
        if let known { return .backing(known) }
        let opened: BackingID
        do throws(Errno) {
            // The kernel writes as whoever had it open the file: root has room that others have not. What was seen before may be
            // of a former owner, if there was one.
            let owner =
                if let status, ownerChanges == 0 { status } else { try descriptor.descriptor.status() }
            ThreadIdentity.become(user: owner.user, group: owner.group)
            defer { ThreadIdentity.becomeDaemon() }
            opened = try connection.openBacking(descriptor.descriptor, for: reply)
        } catch {
            routeStatistics.note(.daemon)
            if error == .notPermitted { routeStatistics.mayNotRegister() }
            // Not allowed (no CAP_SYS_ADMIN) or not possible (a stacked file system): through us, then.
            return .daemon
        }
        routeStatistics.note(.passthrough)
        let (kept, needless): (BackingID, BackingID?) = node.state.withLock { state in
            if let backing = state.usableBacking { return (backing, opened) }
            defer { state.backing = opened }
            state.isBackingOutdated = state.ownerChanges != ownerChanges
            return (opened, state.backing)
        }
        if let needless { connection.closeBacking(needless) }
        return .backing(kept)
    }

    /// Files with privileges or protections go through us, because the kernel's own reopening of an
    /// `O_PATH` descriptor checks neither.
    private func isBypassAllowed(
        for node: Node, through descriptor: SharedDescriptor, knowing status: FileStatus?
    ) throws(Errno) -> Bool {
        if let known = node.state.withLock({ $0.mayBypass }) { return known }
        let status = if let status { status } else { try descriptor.descriptor.status() }
        let allowed = status.mayBypass ?? !hasCapabilities(descriptor)
        node.state.withLock { $0.mayBypass = allowed }
        return allowed
    }

    /// How long a source counts as writable once a file of it was opened for writing.
    private static let proofLasts = TimeSpan.milliseconds(10)

    /// An immutable or append-only file refuses what the kernel's reopening would allow, and a mount that is
    /// read-only what would then fail as EIO: ask the file below. The source itself may become read-only at any time, which
    /// nobody tells us, but need not be asked for each file.
    func checkProtection(
        _ status: FileStatus, of handle: Handle, through descriptor: SharedDescriptor
    ) throws(Errno) {
        let isProtected = status.isProtected
        let (isOnSubmount, now) = (submounts.isOnSubmount(status.mount), Engine.now)
        let proof = Instant(nanoseconds: lastOpenedToWrite.load(ordering: .relaxed))
        // Around the mount the mode may have changed, too.
        if status.mayBypass == false { handle.node.state.withLock { $0.mayBypass = false } }
        guard isProtected || isOnSubmount || now.since(proof) > Self.proofLasts else { return }
        // Not what the file has below, but what its opener has asked for.
        let isAppending = status.attributes.contains(.appendOnly) && handle.flags & O_APPEND != 0
        handle.state.withLock { $0.isAppendOnly = isAppending }
        do throws(Errno) {
            // Nobody's lease is waited for here.
            _ = try descriptor.descriptor.reopen(flags: handle.flagsBelow | O_NONBLOCK)
        } catch {
            guard error == .wouldBlock else { throw error }
        }
        if !isOnSubmount, handle.mayWrite { lastOpenedToWrite.store(now.nanoseconds, ordering: .relaxed) }
    }

    /// An append-only file refuses to be mapped by whoever may write, and the kernel, where it maps the file below itself,
    /// does not. So a file that has become append-only while it is open is not opened to read and to write.
    func checkMapping(of handle: Handle) throws(Errno) {
        guard handle.flags & O_ACCMODE == O_RDWR, handle.state.withLock({ $0.isAppendOnly }) else { return }
        throw .notPermitted
    }

    private func hasCapabilities(_ descriptor: SharedDescriptor) -> Bool {
        do throws(Errno) {
            let none = UnsafeMutableRawBufferPointer(start: nil, count: 0)
            return try descriptor.descriptor.extendedAttribute("security.capability", into: none) > 0
        } catch {
            return error != .noAttribute && error != .unsupported
        }
    }

    /// Whether the file was changed so recently that its clock may not tell the next change from it.
    ///
    /// Since Linux 6.13 the common file systems give a fresh time to a change that follows a look. What is mounted below the
    /// source may be any other.
    func isTimeRacy(_ status: FileStatus) -> Bool {
        guard !hasFineTimes || submounts.isOnSubmount(status.mount) else { return false }
        let changed = status.changed.seconds &* 1_000_000_000 &+ Int64(status.changed.nanoseconds)
        return WallClock.nanoseconds() &- changed < FileTimes.granularity(of: status)
    }
}

extension FileStatus {
    /// Whether the file's data may bypass us, as far as can be seen; nil where capabilities decide, which need a question of
    /// their own.
    var mayBypass: Bool? {
        guard mode & (S_ISUID | S_ISGID) == 0, !isProtected else { return false }
        return mode & 0o111 == 0 ? true : nil
    }
}

extension Node.State {
    /// Counts a handle whose data goes the way of all that are open.
    fileprivate mutating func enter(_ handle: Handle, by route: DataRoute) -> DataRoute {
        opens += 1
        dataRoute = route
        if case .backing = route, handle.mayBeMapped { mappers += 1 }
        return route
    }

    /// Whether it was the last one that may have been mapped.
    fileprivate mutating func leave(_ handle: Handle) -> Bool {
        defer { if opens == 0 { dataRoute = nil } }
        opens -= 1
        guard case .backing = dataRoute, handle.mayBeMapped else { return false }
        mappers -= 1
        return mappers == 0
    }
}

extension Handle {
    /// Shared mappings that can be stored to take both.
    fileprivate var mayBeMapped: Bool { flags & O_ACCMODE == O_RDWR }

    /// Whether the kernel may have for itself what was stored to a mapping: where data goes through the daemon, until it writes
    /// the pages.
    var mayHoldDirtyPages: Bool { mayBeMapped && state.withLock { $0.movesData } }

    /// Whether its program changes the file without a request.
    var writesPassthrough: Bool { mayWrite && !state.withLock { $0.movesData } }

    /// Whether a mapping of its may be stored to though it is closed: it is one of the file below.
    var mapsPassthrough: Bool { mayBeMapped && !state.withLock { $0.movesData } }

    func writeBackStores() {
        if mayHoldDirtyPages { node.writeBackStores() }
    }

    /// Whether something may have been stored to a mapping that the file does not show before the disk is written: on tmpfs,
    /// never.
    var hasUnseenStores: Bool {
        mapsPassthrough && !node.timesShowStores
    }
}

/// Which way the data of the mount goes, as far as it is known.
final class DataRouteStatistics: Sendable {
    private let path = Mutex(DataPath.undecided)
    private let isRefused = Atomic(false)
    private let count = Atomic<Int>(0)

    /// Whether the kernel may be asked at all: what it lets a process do does not change.
    var mayRegister: Bool { !isRefused.load(ordering: .relaxed) }
    func mayNotRegister() { isRefused.store(true, ordering: .relaxed) }

    var dataPath: DataPath { path.withLock { $0 } }

    /// How many open files go some way now.
    var open: Int { count.load(ordering: .relaxed) }
    func entered() { count.add(1, ordering: .relaxed) }
    func left() { count.subtract(1, ordering: .relaxed) }

    /// One file the kernel moves proves that it may; until then, a refusal says that it may not.
    func note(_ seen: DataPath) {
        path.withLock { path in
            if path != .passthrough { path = seen }
        }
    }
}

extension Node {
    /// Has the kernel write what it may have for itself, so that the file shows it. Waits for that, so it is for those who look
    /// and no others: the kernel writes by requests, and nothing before a request for another size of the file was
    /// answered.
    func writeBackStores() { connection.invalidateContents(of: id) }
}
