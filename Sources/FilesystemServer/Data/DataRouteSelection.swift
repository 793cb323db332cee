// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Selects the route of a file's data. It is chosen for each inode at its first open, and holds while the file is open: the
/// kernel answers EIO to handles of one inode in two modes.
extension DataPlane {
    func enterRoute(
        _ handle: Handle, through descriptor: SharedDescriptor, knowing status: FileStatus?,
        isNew: Bool, for reply: borrowing Reply
    ) throws(Errno) -> DataRoute {
        let node = handle.node
        let route: DataRoute
        if let known = node.enterRouteInUse(mapping: handle.mayBeMapped) {
            route = known
        } else {
            route = try newRoute(for: handle, through: descriptor, knowing: status, for: reply)
        }
        routeStatistics.entered()
        // The kernel may cache earlier attributes for long: invalidate them. For a new file none are cached.
        if case .backing = route, handle.mayBeMapped, !isNew { connection.invalidateAttributes(of: node.id) }
        return route
    }

    /// Chooses a route while the file is not open. Its backing file may be closed until this open is counted.
    private func newRoute(
        for handle: Handle, through descriptor: SharedDescriptor, knowing status: FileStatus?,
        for reply: borrowing Reply
    ) throws(Errno) -> DataRoute {
        while true {
            let wanted = try chooseRoute(of: handle.node, through: descriptor, knowing: status, for: reply)
            if let entered = handle.node.enterRoute(wanted, mapping: handle.mayBeMapped) { return entered }
        }
    }

    /// Whether the kernel is known to move a file's data by an existing, valid backing file. Then another open of the file
    /// opens nothing here, and needs no other user's identity.
    func isPassthrough(_ node: Node) -> Bool {
        dataPath == .passthrough
            && node.isKnownPassthrough
    }

    /// The data path that status reports show.
    var dataPath: DataPath { context.configuration.data == .daemon ? .daemon : routeStatistics.dataPath }

    func leaveRoute(_ handle: Handle) {
        let node = handle.node
        let wasLastMapper = node.leaveRoute(mapping: handle.mayBeMapped)
        routeStatistics.left()
        node.closeBackingIfUnused()
        // Attributes that were cached before the last store to a mapping are no longer valid.
        if wasLastMapper { connection.invalidateAttributes(of: node.id) }
    }

    private func chooseRoute(
        of node: Node, through descriptor: SharedDescriptor, knowing status: FileStatus?,
        for reply: borrowing Reply
    ) throws(Errno) -> DataRoute {
        // With passthrough, close(2) would not return the errors of a remote file system.
        guard context.configuration.data == .automatic, context.agreement().contains(.passthrough),
            node.kind == S_IFREG,
            routeStatistics.mayRegister, node.isMachineLocal
        else {
            return .daemon
        }
        guard try isBypassAllowed(for: node, through: descriptor, knowing: status) else { return .daemon }
        let (known, ownerChanges) = node.backingForOpen
        if let known { return .backing(known) }
        let opened: BackingID
        do throws(Errno) {
            // The kernel writes as the user that opened the file. It must not be root, which may use reserved space.
            // `status` may be older than a change of owner, if there was one.
            let owner =
                if let status, ownerChanges == 0 { status } else { try descriptor.descriptor.status() }
            ThreadIdentity.become(user: owner.user, group: owner.group)
            defer { ThreadIdentity.becomeDaemon() }
            opened = try connection.openBacking(descriptor.descriptor, for: reply)
        } catch {
            routeStatistics.note(.daemon)
            if error == .notPermitted { routeStatistics.mayNotRegister() }
            // Not allowed (no CAP_SYS_ADMIN) or not possible (a stacked file system): the daemon moves the data.
            return .daemon
        }
        routeStatistics.note(.passthrough)
        let (kept, needless) = node.offerBacking(opened, ownerChanges: ownerChanges)
        if let needless { connection.closeBacking(needless) }
        return .backing(kept)
    }

    /// Whether the kernel may move the data. The daemon moves data of files with privileges or protections, because the
    /// kernel does not check these when it reopens an `O_PATH` descriptor.
    private func isBypassAllowed(
        for node: Node, through descriptor: SharedDescriptor, knowing status: FileStatus?
    ) throws(Errno) -> Bool {
        if let known = node.mayBypass { return known }
        let status = if let status { status } else { try descriptor.descriptor.status() }
        let allowed = status.mayBypass ?? !hasCapabilities(descriptor)
        node.setMayBypass(allowed)
        return allowed
    }

    /// How long a source counts as writable after one of its files was opened for writing.
    private static let proofLasts = TimeSpan.milliseconds(10)

    /// Opens the file below once, if necessary, so that its own protection can refuse the open.
    /// - An immutable or append-only file would be opened by the kernel without a check.
    /// - On a read-only mount, later writes would fail with EIO.
    ///
    /// The source may become read-only unnoticed at any time, but need not be checked for each file.
    func checkProtection(
        _ status: FileStatus, of handle: Handle, through descriptor: SharedDescriptor
    ) throws(Errno) {
        let isProtected = status.isProtected
        let (isOnSubmount, now) = (submounts.isOnSubmount(status.mount), Engine.now)
        let proof = Instant(nanoseconds: lastOpenedToWrite.load(ordering: .relaxed))
        // The mode may have been changed out of band.
        if status.mayBypass == false { handle.node.setMayBypass(false) }
        guard isProtected || isOnSubmount || now.since(proof) > Self.proofLasts else { return }
        // Uses only the append flag of the opener, not the attributes of the file below.
        let isAppending = status.attributes.contains(.appendOnly) && handle.flags & O_APPEND != 0
        handle.setAppendOnly(isAppending)
        do throws(Errno) {
            // Does not wait for other programs' leases.
            _ = try descriptor.descriptor.reopen(flags: handle.flagsBelow | O_NONBLOCK)
        } catch {
            guard error == .wouldBlock else { throw error }
        }
        if !isOnSubmount, handle.mayWrite { lastOpenedToWrite.store(now.nanoseconds, ordering: .relaxed) }
    }

    /// Refuses to open an append-only file for reading and writing, so that it cannot be mapped. A file system refuses such
    /// a mapping itself, but the kernel does not check that when it maps the file below.
    func checkMapping(of handle: Handle) throws(Errno) {
        guard handle.flags & O_ACCMODE == O_RDWR, handle.isAppendOnly else { return }
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
}

extension FileStatus {
    /// Whether the kernel may move the file's data, according to its status. Nil if its capabilities decide, which need a
    /// query of their own.
    var mayBypass: Bool? {
        guard mode & (S_ISUID | S_ISGID) == 0, !isProtected else { return false }
        return mode & 0o111 == 0 ? true : nil
    }
}

extension Handle {
    /// Shared writable mappings need both reading and writing.
    var mayBeMapped: Bool { flags & O_ACCMODE == O_RDWR }

    /// Whether the kernel may hold stores to a mapping that it has not written yet. That needs data that goes through the
    /// daemon.
    var mayHoldDirtyPages: Bool { mayBeMapped && movesData }

    /// Whether its program changes the file without a request.
    var writesPassthrough: Bool { mayWrite && !movesData }

    /// Whether a mapping can change the file after the handle was closed: it maps the file below.
    var mapsPassthrough: Bool { mayBeMapped && !movesData }

    func writeBackStores() {
        if mayHoldDirtyPages { node.writeBackStores() }
    }

    /// Whether a mapping may have stores that the file's times do not show before they reach the disk. On tmpfs they never
    /// show.
    var hasUnseenStores: Bool {
        mapsPassthrough && !node.timesShowStores
    }
}

/// The data path of the mount, as far as it is known.
final class DataRouteStatistics: Sendable {
    private let path = Mutex(DataPath.undecided)
    private let isRefused = Atomic(false)
    private let count = Atomic<Int>(0)

    /// Whether the kernel may be asked at all; the permissions of a process do not change.
    var mayRegister: Bool { !isRefused.load(ordering: .relaxed) }
    func mayNotRegister() { isRefused.store(true, ordering: .relaxed) }

    var dataPath: DataPath { path.withLock { $0 } }

    /// The number of open files that have a route.
    var open: Int { count.load(ordering: .relaxed) }
    func entered() { count.add(1, ordering: .relaxed) }
    func left() { count.subtract(1, ordering: .relaxed) }

    /// Notes a route. One passthrough file proves that passthrough works; until then, a refusal counts as the answer.
    func note(_ seen: DataPath) {
        path.withLock { path in
            if path != .passthrough { path = seen }
        }
    }
}

extension Node {
    /// Makes the kernel write dirty pages, so that the file shows them. Waits for their requests. So it is for observations
    /// only, and not within a request for another size of the file: the kernel writes after its answer.
    func writeBackStores() { connection.invalidateContents(of: id) }
}
