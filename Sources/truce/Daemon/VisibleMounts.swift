// SPDX-License-Identifier: Apache-2.0
import ControlClient
import LinuxSystem

/// The mounts that show a source and that are in the caller's mount namespace.
///
/// Directories are compared by device and inode, because the source's former path may lead to another directory now.
/// But the mount table contains only paths. So if the source was renamed after a mount of it was made, that mount is
/// not found.
struct VisibleMounts: Sendable {
    private let path: [UInt8]
    private let identity: Identity?

    /// The device and inode number of a directory. Two paths lead to the same directory if these are equal.
    private struct Identity: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64

        init(of directory: borrowing OwnedDescriptor) throws(Errno) {
            let status = try directory.status()
            (device, inode) = (status.device, status.inode)
        }
    }

    init(of source: borrowing OwnedDescriptor, at path: String) {
        self.path = Array(path.utf8)
        do throws(Errno) { identity = try Identity(of: source) } catch { identity = nil }
    }

    /// Returns the first mount of the source that one of `users` has made and that is not dead.
    ///
    /// Mounts of other users do not count, because any user can make a mount that pretends to show any source.
    func first(by users: Set<UInt32>) -> MountEntry? {
        let table: MountTable
        do throws(CommandFailure) { table = try MountFinder.table() } catch { return nil }
        let mounts = table.entries.filter { $0.isTruce && $0.user.map(users.contains) == true }
        guard !mounts.isEmpty else { return nil }
        let found = BoundedWait.result { [self] in
            mounts.first { shows($0) && !DeadMountProbe.isDead($0.mountpoint, in: table) }
        }
        guard let found else { return mounts.first { $0.source == path } }
        return found
    }

    /// Whether a mount shows the source. For an in-place mount, only the path is compared: the path leads to the mount,
    /// and no longer to the source below it.
    private func shows(_ mount: MountEntry) -> Bool {
        guard let identity, mount.source != mount.mountpoint else { return mount.source == path }
        do throws(Errno) {
            return try Identity(of: .openResolved(mount.source)) == identity
        } catch {
            return error == .noAccess && mount.source == path
        }
    }
}
