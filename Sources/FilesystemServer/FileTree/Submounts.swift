// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// Other file systems that are mounted below the source, as a mount shows them that is one file system with one set
/// of flags.
///
/// The kernel gives a FUSE server no device of its own for what is mounted below (it offers `FUSE_SUBMOUNTS` to virtiofs
/// only). So inode numbers tell the file systems apart, and what the mount below forbids and ours does not is left
/// out of what is shown of a file.
final class Submounts: Sendable {
    /// What a mount can forbid.
    enum Flag: String { case nosuid, nodev, noexec }

    /// The mount the source lies on.
    private let mountOfSource: UInt64
    private let deviceOfSource: UInt64
    /// What our own mount forbids anyway.
    private let forbidden: Set<Flag>
    /// Those by which something is reached that another of them leads to as well.
    private let shared: Set<UInt64>
    /// Those mounts whose file systems nobody but programs of this machine changes, when the mount was made.
    private let ofThisMachine: Set<UInt64>
    private let isSourceOfThisMachine: Bool
    private let numbers: InodeNumberMap
    private let places: SubmountPoints?

    /// `path` is where the source is in `table`, which is from before our mount.
    init(source: FileStatus, at path: [UInt8], in table: MountTable, forbidden: Set<Flag>) {
        (mountOfSource, deviceOfSource) = (source.mount, source.device)
        numbers = InodeNumberMap(deviceOfSource: source.device)
        places = SubmountPoints(path)
        self.forbidden = forbidden
        shared = table.overlapping(below: path, on: Int(clamping: source.mount))
        ofThisMachine = Set(table.entries.filter(\.isOfThisMachine).map { UInt64($0.id) })
        isSourceOfThisMachine = ofThisMachine.contains(source.mount)
    }

    /// Whether what the mount leads to is not changed by other machines or by a process that serves it.
    func isMachineLocal(_ mount: UInt64) -> Bool {
        isOnSubmount(mount) ? ofThisMachine.contains(mount) : isSourceOfThisMachine
    }

    /// Whether what the mount leads to changes by another way as well, of which the kernel knows nothing: it must not
    /// remember any of it.
    func isShared(_ mount: UInt64) -> Bool { !shared.isEmpty && shared.contains(mount) }

    /// Whether a file was reached by another mount than the source.
    func isOnSubmount(_ mount: UInt64) -> Bool { mount != mountOfSource }

    /// Whether a file is one of the source's own file system, as it is reached by the source.
    func isOfSource(_ status: FileStatus) -> Bool {
        status.device == deviceOfSource && !isOnSubmount(status.mount)
    }

    /// What tells files of one inode number apart; nil for the source's own.
    func realm(of file: FileKey) -> UInt64? {
        if file.device == deviceOfSource, !isOnSubmount(file.mount) { return nil }
        return isOnSubmount(file.mount) ? file.device ^ file.mount << 32 : file.device
    }

    /// Whether the mount a file was reached by forbids what ours allows.
    func forbids(_ flag: Flag, on mount: UInt64) -> Bool {
        guard isOnSubmount(mount), !forbidden.contains(flag) else { return false }
        do throws(Errno) {
            // One that is not in the table was taken away, or belongs to somebody else: then rather too much.
            return try MountTable.current().entry(id: Int(clamping: mount))?.has(flag.rawValue) ?? true
        } catch {
            return true
        }
    }

    /// What programs see of a file.
    func shown(_ status: FileStatus) -> FileStatus {
        guard !isOfSource(status) else { return status }
        var status = status
        status.inode = number(ofInode: status.inode, on: status.device)
        switch status.kind {
        case S_IFREG where status.mode & (S_ISUID | S_ISGID) != 0:
            if forbids(.nosuid, on: status.mount) { status.mode &= ~(S_ISUID | S_ISGID) }
        case S_IFCHR, S_IFBLK:
            // The kernel opens devices without asking us.
            if forbids(.nodev, on: status.mount) { status.specialDevice = DeviceNumber.none }
        default: break
        }
        return status
    }

    /// An inode number that no other file below the source has.
    func number(ofInode inode: UInt64, on device: UInt64) -> UInt64 {
        numbers.number(ofInode: inode, on: device)
    }

    /// The names in a directory at which something is mounted: what a listing says of them is about what is covered.
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

    /// What a path below the mountpoint is called in the file system.
    fileprivate func part(at path: [UInt8]) -> [UInt8] {
        let slash = UInt8(ascii: "/")
        let rest =
            path.isPath(atOrBelow: mountpoint)
            ? path.dropFirst(mountpoint == [slash] ? 0 : mountpoint.count) : []
        let parts = (root + [slash] + rest).split(separator: slash)
        return [slash] + parts.joined(separator: [slash])
    }
}
