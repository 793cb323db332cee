// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// Other file systems that are mounted below the source. A Truce mount shows them as parts of one file system.
///
/// The kernel gives a FUSE server no separate devices for them: it offers `FUSE_SUBMOUNTS` to virtiofs only. So inode
/// numbers tell the file systems apart. If a submount forbids something that our mount allows, the shown status of its
/// files omits it.
final class Submounts: Sendable {
    /// The things that a mount can forbid.
    enum Flag: String { case nosuid, nodev, noexec }

    /// The mount that contains the source.
    private let mountOfSource: UInt64
    private let deviceOfSource: UInt64
    /// The flags that our own mount sets.
    private let forbidden: Set<Flag>
    /// Mounts that show a part of a file system that another of them shows too.
    private let shared: Set<UInt64>
    /// Mounts that only programs of this machine change, as of the time when our mount was made.
    private let ofThisMachine: Set<UInt64>
    private let isSourceOfThisMachine: Bool
    private let numbers: InodeNumberMap
    private let places: SubmountPoints?

    /// Reads the mounts from `table`, which is older than our mount. `path` is the path of the source there.
    init(source: FileStatus, at path: [UInt8], in table: MountTable, forbidden: Set<Flag>) {
        (mountOfSource, deviceOfSource) = (source.mount, source.device)
        numbers = InodeNumberMap(deviceOfSource: source.device)
        places = SubmountPoints(path)
        self.forbidden = forbidden
        shared = table.overlapping(below: path, on: Int(clamping: source.mount))
        ofThisMachine = Set(table.entries.filter(\.isOfThisMachine).map { UInt64($0.id) })
        isSourceOfThisMachine = ofThisMachine.contains(source.mount)
    }

    /// Whether neither other machines nor a serving process change the files of the mount.
    func isMachineLocal(_ mount: UInt64) -> Bool {
        isOnSubmount(mount) ? ofThisMachine.contains(mount) : isSourceOfThisMachine
    }

    /// Whether the files of the mount can also be changed through another mount. The kernel is not told of such changes, so
    /// it must cache nothing.
    func isShared(_ mount: UInt64) -> Bool { !shared.isEmpty && shared.contains(mount) }

    /// Whether a file was reached by another mount than the source.
    func isOnSubmount(_ mount: UInt64) -> Bool { mount != mountOfSource }

    /// Whether a file belongs to the source's own file system and was reached through the source.
    func isOfSource(_ status: FileStatus) -> Bool {
        status.device == deviceOfSource && !isOnSubmount(status.mount)
    }

    /// Tells files with the same inode number apart; nil for the source's own.
    func realm(of file: FileKey) -> UInt64? {
        if file.device == deviceOfSource, !isOnSubmount(file.mount) { return nil }
        return isOnSubmount(file.mount) ? file.device ^ file.mount << 32 : file.device
    }

    /// Whether the mount of a file forbids something that ours allows.
    func forbids(_ flag: Flag, on mount: UInt64) -> Bool {
        guard isOnSubmount(mount), !forbidden.contains(flag) else { return false }
        do throws(Errno) {
            // A mount that is not in the table was unmounted or belongs to another namespace: assume that it forbids.
            return try MountTable.current().entry(id: Int(clamping: mount))?.has(flag.rawValue) ?? true
        } catch {
            return true
        }
    }

    /// The status of a file that programs see.
    func shown(_ status: FileStatus) -> FileStatus {
        guard !isOfSource(status) else { return status }
        var status = status
        status.inode = number(ofInode: status.inode, on: status.device)
        switch status.kind {
        case S_IFREG where status.mode & (S_ISUID | S_ISGID) != 0:
            if forbids(.nosuid, on: status.mount) { status.mode &= ~(S_ISUID | S_ISGID) }
        case S_IFCHR, S_IFBLK:
            // The kernel opens devices without asking the daemon.
            if forbids(.nodev, on: status.mount) { status.specialDevice = DeviceNumber.none }
        default: break
        }
        return status
    }

    /// An inode number that no other file below the source has.
    func number(ofInode inode: UInt64, on device: UInt64) -> UInt64 {
        numbers.number(ofInode: inode, on: device)
    }

    /// The names of mountpoints in a directory. A listing describes the covered directories instead.
    func mountpoints(in directory: Node) -> Set<[UInt8]> { places?.names(in: directory) ?? [] }
}

extension MountTable {
    /// The mounts at or below a directory that show the same part of a file system as another of them.
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

    /// The path within the file system for a path below the mountpoint.
    fileprivate func part(at path: [UInt8]) -> [UInt8] {
        let slash = UInt8(ascii: "/")
        let rest =
            path.isPath(atOrBelow: mountpoint)
            ? path.dropFirst(mountpoint == [slash] ? 0 : mountpoint.count) : []
        let parts = (root + [slash] + rest).split(separator: slash)
        return [slash] + parts.joined(separator: [slash])
    }
}
