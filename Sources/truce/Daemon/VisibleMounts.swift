// SPDX-License-Identifier: Apache-2.0
import ControlClient
import LinuxSystem

/// The mounts in the caller's mount namespace that show a source.
///
/// A directory is known by its device and inode, because another directory may have its old path now. The table has only paths:
/// a mount is not found if its source was renamed since.
struct VisibleMounts: Sendable {
    private let path: [UInt8]
    private let identity: Identity?

    /// Device and inode of a directory.
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

    /// The first living mount of the source that one of these users made. Other users may name the sources of their mounts as
    /// they like.
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

    /// Whether a mount shows the source. The path of a mount in place leads to the mount itself, so only the path is compared.
    private func shows(_ mount: MountEntry) -> Bool {
        guard let identity, mount.source != mount.mountpoint else { return mount.source == path }
        do throws(Errno) {
            return try Identity(of: .openResolved(mount.source)) == identity
        } catch {
            return error == .noAccess && mount.source == path
        }
    }
}
