// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// Other file systems that are mounted below the source. A Truce mount shows them as parts of one file system.
///
/// The kernel allows only virtiofs to give each submount a device of its own (`FUSE_SUBMOUNTS`). So files of different file
/// systems are distinguished by inode numbers. A submount may forbid set-user-ID or devices although the Truce mount allows
/// them. Then the status that programs see contains no set-user-ID bit or no device number.
final class Submounts: Sendable {
    /// The properties that a mount can forbid: set-user-ID, devices, and execution.
    enum Flag: String { case nosuid, nodev, noexec }

    /// The number of the mount that contains the source.
    private let mountOfSource: UInt64
    private let deviceOfSource: UInt64
    /// The properties that the Truce mount itself forbids.
    private let forbidden: Set<Flag>
    /// The submounts with files that can also be reached by another mount below the source, or by the source's own mount.
    private let shared: Set<UInt64>
    /// The mounts that only programs of this machine can change. They were read when the Truce mount was made.
    private let ofThisMachine: Set<UInt64>
    private let isSourceOfThisMachine: Bool
    private let numbers: InodeNumberMap
    private let places: SubmountPoints?

    /// Reads the mounts from `table`, which is older than the Truce mount. `path` is the path of the source in this table.
    init(source: FileStatus, at path: [UInt8], in table: MountTable, forbidden: Set<Flag>) {
        (mountOfSource, deviceOfSource) = (source.mount, source.device)
        numbers = InodeNumberMap(deviceOfSource: source.device)
        places = SubmountPoints(path)
        self.forbidden = forbidden
        shared = table.overlapping(below: path, on: Int(clamping: source.mount))
        ofThisMachine = Set(table.entries.filter(\.isOfThisMachine).map { UInt64($0.id) })
        isSourceOfThisMachine = ofThisMachine.contains(source.mount)
    }

    /// Whether only programs of this machine can change the files of the mount: the file system is not on a network, and no
    /// FUSE server provides it.
    func isMachineLocal(_ mount: UInt64) -> Bool {
        isOnSubmount(mount) ? ofThisMachine.contains(mount) : isSourceOfThisMachine
    }

    /// Whether the files of this mount can also be changed through another mount. The kernel does not notice these changes, so
    /// it must not cache attributes and names.
    func isShared(_ mount: UInt64) -> Bool { !shared.isEmpty && shared.contains(mount) }

    /// Whether a file is on a submount: it was reached through another mount than the source's.
    func isOnSubmount(_ mount: UInt64) -> Bool { mount != mountOfSource }

    /// Whether a file is on the source's own file system, and was reached through the source's mount.
    func isOfSource(_ status: FileStatus) -> Bool {
        status.device == deviceOfSource && !isOnSubmount(status.mount)
    }

    /// A number for the mount and device of a file. It distinguishes files with the same inode number; nil for files of the
    /// source.
    func realm(of file: FileKey) -> UInt64? {
        if file.device == deviceOfSource, !isOnSubmount(file.mount) { return nil }
        return isOnSubmount(file.mount) ? file.device ^ file.mount << 32 : file.device
    }

    /// Whether the file's mount forbids a property that the Truce mount allows.
    func forbids(_ flag: Flag, on mount: UInt64) -> Bool {
        guard isOnSubmount(mount), !forbidden.contains(flag) else { return false }
        do throws(Errno) {
            // A mount that is not in the table was unmounted, or belongs to another mount namespace. Such a mount counts as
            // forbidding the property.
            return try MountTable.current().entry(id: Int(clamping: mount))?.has(flag.rawValue) ?? true
        } catch {
            return true
        }
    }

    /// The status of a file as programs see it. It contains an inode number of the Truce mount, and no properties that the
    /// file's mount forbids.
    func shown(_ status: FileStatus) -> FileStatus {
        guard !isOfSource(status) else { return status }
        var status = status
        status.inode = number(ofInode: status.inode, on: status.device)
        switch status.kind {
        case S_IFREG where status.mode & (S_ISUID | S_ISGID) != 0:
            if forbids(.nosuid, on: status.mount) { status.mode &= ~(S_ISUID | S_ISGID) }
        case S_IFCHR, S_IFBLK:
            // The kernel opens devices without a request to the daemon, so the daemon cannot refuse to open a device.
            if forbids(.nodev, on: status.mount) { status.specialDevice = DeviceNumber.none }
        default: break
        }
        return status
    }

    /// The inode number that programs see. No other file below the source has this number.
    func number(ofInode inode: UInt64, on device: UInt64) -> UInt64 {
        numbers.number(ofInode: inode, on: device)
    }

    /// The names of mountpoints in a directory. The file system below lists these names with the inode numbers of the covered
    /// directories.
    func mountpoints(in directory: Node) -> Set<[UInt8]> { places?.names(in: directory) ?? [] }
}

extension MountTable {
    /// Of the mounts at or below a directory, those with files that can also be reached by another of these mounts.
    fileprivate func overlapping(below path: [UInt8], on mount: Int) -> Set<UInt64> {
        var views = entries.filter { $0.id != mount && $0.mountpoint != path }
            .filter { $0.mountpoint.isPath(atOrBelow: path) }
            .map { (mount: $0.id, device: $0.device, part: $0.root) }
        if let source = entry(id: mount) {
            views.append((mount, source.device, source.part(at: path)))
        }
        let byDevice = Dictionary(grouping: views) { $0.device }
        let shared = byDevice.values.flatMap { views in
            views.filter { view in
                views.contains { other in
                    other.mount != view.mount
                        && (other.part.isPath(atOrBelow: view.part)
                            || view.part.isPath(atOrBelow: other.part))
                }
            }
        }
        return Set(shared.map { UInt64($0.mount) })
    }
}

extension MountEntry {
    private static let typesOfThisMachine: Set<String> = [
        "ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "zfs", "tmpfs", "ramfs", "overlay",
        "vfat",
        "msdos", "exfat", "ntfs3", "hfs", "hfsplus", "jfs", "nilfs2", "reiserfs", "ubifs", "squashfs",
        "erofs",
        "iso9660", "udf",
    ]

    fileprivate var isOfThisMachine: Bool { Self.typesOfThisMachine.contains(type) }

    /// The path within the file system that corresponds to a path at or below the mountpoint.
    fileprivate func part(at path: [UInt8]) -> [UInt8] {
        let slash = UInt8(ascii: "/")
        let rest =
            path.isPath(atOrBelow: mountpoint)
            ? path.dropFirst(mountpoint == [slash] ? 0 : mountpoint.count) : []
        let parts = (root + [slash] + rest).split(separator: slash)
        return [slash] + parts.joined(separator: [slash])
    }
}
