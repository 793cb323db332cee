// SPDX-License-Identifier: Apache-2.0
import ControlClient
import LinuxSystem

/// The mounts in the caller's mount namespace that show a source.
///
/// Directories are compared by device and inode, because another directory may have the former path of the source now. But the
/// mount table contains only paths. So a mount is not found if its source was renamed since the mount was made.
struct VisibleMounts: Sendable {
    private let path: [UInt8]
    private let identity: Identity?

    /// The device and inode of a directory, which identify it.
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

    /// Returns the first living mount of the source that one of `users` made.
    ///
    /// Mounts of other users are ignored, because those users can put any source in the mount table.
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

    /// Whether a mount shows the source. For an in-place mount only the path is compared, because its path leads to the mount
    /// itself.
    private func shows(_ mount: MountEntry) -> Bool {
        guard let identity, mount.source != mount.mountpoint else { return mount.source == path }
        do throws(Errno) {
            return try Identity(of: .openResolved(mount.source)) == identity
        } catch {
            return error == .noAccess && mount.source == path
        }
    }
}
