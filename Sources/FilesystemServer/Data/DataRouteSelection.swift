// SPDX-License-Identifier: Apache-2.0
import Coordination
import CoordinationEngine
import FuseBridge
import Glibc
import LinuxSystem
import Synchronization

/// Selects the data route of a file: either the kernel or the daemon moves the data.
///
/// The daemon selects the route when a file is opened that is not open yet. All further handles of the file use this route
/// until the last handle is closed. The kernel answers EIO if two handles of one inode have different routes.
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
        // The kernel may have cached attributes of the file for a long time, so they are invalidated now. For a new file, the
        // kernel has cached no attributes.
        if case .backing = route, handle.mayBeMapped, !isNew { connection.invalidateAttributes(of: node.id) }
        return route
    }

    /// Chooses a route for a file that is not open. Before this open is counted, the close of another handle may close the
    /// chosen backing file. In this case the route is chosen anew.
    private func newRoute(
        for handle: Handle, through descriptor: SharedDescriptor, knowing status: FileStatus?,
        for reply: borrowing Reply
    ) throws(Errno) -> DataRoute {
        while true {
            // While the daemon does not know what the program has read, it moves the data itself.
            let wanted =
                handle.awaitsFirstAccess
                ? .daemon : try chooseRoute(of: handle.node, through: descriptor, knowing: status, for: reply)
            if let entered = handle.node.enterRoute(wanted, mapping: handle.mayBeMapped) { return entered }
        }
    }

    /// Whether the kernel moves the file's data by a backing file that is already open and valid. In this case a further open
    /// of the file needs no other backing file, and the daemon need not act as the program's user.
    func isPassthrough(_ node: Node) -> Bool {
        dataPath == .passthrough
            && node.isKnownPassthrough
    }

    /// The data path that status reports show: through the kernel (passthrough), through the daemon, or undecided.
    var dataPath: DataPath { context.configuration.data == .daemon ? .daemon : routeStatistics.dataPath }

    func leaveRoute(_ handle: Handle) {
        let node = handle.node
        let wasLastMapper = node.leaveRoute(mapping: handle.mayBeMapped)
        routeStatistics.left()
        node.closeBackingIfUnused()
        // A program may have changed the file by a mapping after the kernel had cached the attributes. So the cached attributes
        // are dropped.
        if wasLastMapper { connection.invalidateAttributes(of: node.id) }
    }

    private func chooseRoute(
        of node: Node, through descriptor: SharedDescriptor, knowing status: FileStatus?,
        for reply: borrowing Reply
    ) throws(Errno) -> DataRoute {
        // Under passthrough, the kernel does not report the errors of a remote file system at close(2). So the daemon itself
        // moves the data of files on remote file systems.
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
            // Under passthrough, the kernel writes with the rights of the user that opened the backing file. Root may use the
            // reserved space of a file system, so the file's owner opens the backing file, and not root. If the file's owner
            // was changed meanwhile, `status` may show the former owner.
            let owner =
                if let status, ownerChanges == 0 { status } else { try descriptor.descriptor.status() }
            ThreadIdentity.become(user: owner.user, group: owner.group)
            defer { ThreadIdentity.becomeDaemon() }
            opened = try connection.openBacking(descriptor.descriptor, for: reply)
        } catch {
            routeStatistics.note(.daemon)
            if error == .notPermitted { routeStatistics.mayNotRegister() }
            // The daemon moves the data if passthrough is not allowed (no CAP_SYS_ADMIN) or not possible (a stacked file
            // system).
            return .daemon
        }
        routeStatistics.note(.passthrough)
        let (kept, needless) = node.offerBacking(opened, ownerChanges: ownerChanges)
        if let needless { connection.closeBacking(needless) }
        return .backing(kept)
    }

    /// Whether the kernel may move the file's data. For a file with privileges (set-user-ID, capabilities) or a protection, the
    /// daemon moves the data. The kernel would not check privileges and protections when a program reopens an `O_PATH`
    /// descriptor.
    private func isBypassAllowed(
        for node: Node, through descriptor: SharedDescriptor, knowing status: FileStatus?
    ) throws(Errno) -> Bool {
        if let known = node.mayBypass { return known }
        let status = if let status { status } else { try descriptor.descriptor.status() }
        let allowed = status.mayBypass ?? !hasCapabilities(descriptor)
        node.setMayBypass(allowed)
        return allowed
    }

    /// For this time after opening a file of the source for writing, the daemon assumes that the source is still writable.
    private static let proofLasts = TimeSpan.milliseconds(10)

    /// Opens the file below once, if necessary, because a protection of the file or of its mount may refuse the open:
    /// - The kernel would open an immutable or append-only file without a check.
    /// - On a read-only mount, the open would succeed, and later writes would fail with EIO.
    ///
    /// The source may become read-only at any time, and the daemon is not notified. If the daemon has opened a file of the
    /// source for writing within ``proofLasts``, it checks only files that are protected or on a submount.
    func checkProtection(
        _ status: FileStatus, of handle: Handle, through descriptor: SharedDescriptor
    ) throws(Errno) {
        let isProtected = status.isProtected
        let (isOnSubmount, now) = (submounts.isOnSubmount(status.mount), Engine.now)
        let proof = Instant(nanoseconds: lastOpenedToWrite.load(ordering: .relaxed))
        // Since the last check of the node, the file may have got set-user-ID or set-group-ID bits out of band.
        if status.mayBypass == false { handle.node.setMayBypass(false) }
        guard isProtected || isOnSubmount || now.since(proof) > Self.proofLasts else { return }
        // The file below is opened with `O_APPEND` only if two conditions hold: the file is append-only, and the program has
        // set `O_APPEND`.
        let isAppending = status.attributes.contains(.appendOnly) && handle.flags & O_APPEND != 0
        handle.setAppendOnly(isAppending)
        do throws(Errno) {
            // `O_NONBLOCK`: the daemon does not wait until other programs give up their leases on the file.
            _ = try descriptor.descriptor.reopen(flags: handle.flagsBelow | O_NONBLOCK)
        } catch {
            guard error == .wouldBlock else { throw error }
        }
        if !isOnSubmount, handle.mayWrite { lastOpenedToWrite.store(now.nanoseconds, ordering: .relaxed) }
    }

    /// Refuses to open an append-only file for reading and writing. The program could otherwise map the file and overwrite its
    /// contents. Under passthrough, the kernel would not refuse such a mapping.
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
    /// Whether the file's status allows the kernel to move the file's data. Nil for an executable file: the daemon must also
    /// query the file's capabilities.
    var mayBypass: Bool? {
        guard mode & (S_ISUID | S_ISGID) == 0, !isProtected else { return false }
        return mode & 0o111 == 0 ? true : nil
    }
}

extension Handle {
    /// Whether programs can make a shared writable mapping by this handle: only a handle for reading and writing allows that.
    var mayBeMapped: Bool { flags & O_ACCMODE == O_RDWR }

    /// Whether the kernel may hold changed pages of a mapping that it has not written back. That is possible only if the daemon
    /// moves the data.
    var mayHoldDirtyPages: Bool { mayBeMapped && movesData }

    /// Whether the program can change the file without a request to the daemon, because the kernel moves the data.
    var writesPassthrough: Bool { mayWrite && !movesData }

    /// Whether a program can still change the file by a mapping after the handle was closed. Under passthrough, the kernel maps
    /// the file below, so the mapping does not need the handle.
    var mapsPassthrough: Bool { mayBeMapped && !movesData }

    func writeBackStores() {
        if mayHoldDirtyPages { node.writeBackStores() }
    }

    /// Whether a program may have changed the file by a mapping without a change of the file's times. On tmpfs this is
    /// always possible, because a change by a mapping never updates the times there.
    var hasUnseenStores: Bool {
        mapsPassthrough && !node.timesShowStores
    }
}

/// Counts the open files of the mount that have a data route, and notes whether the kernel or the daemon moves their data.
final class DataRouteStatistics: Sendable {
    private let path = Mutex(DataPath.undecided)
    private let isRefused = Atomic(false)
    private let count = Atomic<Int>(0)

    /// Whether the daemon may try to register backing files. After the kernel has refused one for lack of permission, the
    /// daemon does not try again, because the permissions of a process do not change.
    var mayRegister: Bool { !isRefused.load(ordering: .relaxed) }
    func mayNotRegister() { isRefused.store(true, ordering: .relaxed) }

    var dataPath: DataPath { path.withLock { $0 } }

    /// The number of open handles that have a data route.
    var open: Int { count.load(ordering: .relaxed) }
    func entered() { count.add(1, ordering: .relaxed) }
    func left() { count.subtract(1, ordering: .relaxed) }

    /// Notes the route of an opened file. If any file has used passthrough, the mount's data path stays passthrough after that.
    func note(_ seen: DataPath) {
        path.withLock { path in
            if path != .passthrough { path = seen }
        }
    }
}

extension Node {
    /// Makes the kernel write back the changed pages of a file, so that the file's times show the changes. Waits until the
    /// kernel's WRITE requests for these pages are answered.
    ///
    /// Call this only for observations, and not in a request that changes the file's size. The kernel writes nothing back
    /// before such a request is answered, so the call would wait forever.
    func writeBackStores() { connection.invalidateContents(of: id) }
}
