// SPDX-License-Identifier: Apache-2.0
import TestSupport

/// A separate file system, for tests with very many files or with features of ext4 or Btrfs. The file system is removed when
/// this object is deinitialized.
final class LoopFilesystem: Sendable {
    let path: String
    private let image: String

    init(inodes: Int, options: String = "defaults", making: String = "-b 4096") throws {
        path = try Lab.freshDirectory("loop")
        image = path + ".image"
        // An inode needs 256 bytes, and a name about 16 bytes.
        let size = "\(((inodes * 400) >> 20) + 512)M"
        try Script(
            """
            truncate --size="$3" "$2"
            mkfs.ext4 -q -N "$4" $6 "$2"
            mount -o "loop,$5" "$2" "$1"
            """
        ).run(path, image, size, "\(inodes)", options, making)
    }

    /// Makes a Btrfs file system. `size` has the form of truncate(1).
    init(btrfsOf size: String) throws {
        path = try Lab.freshDirectory("loop")
        image = path + ".image"
        try Script("truncate --size=\"$3\" \"$2\"; mkfs.btrfs -q \"$2\"; mount -o loop \"$2\" \"$1\"")
            .run(path, image, size)
    }

    /// Mounts a directory of a new file system, which `prepare` fills first.
    static func with(
        _ options: [String] = [], mounted: String = "defaults", making: String = "-b 4096",
        prepare: (MountedDirectory) throws -> Void = { _ in }, _ body: (MountedDirectory) throws -> Void
    ) throws {
        let filesystem = try LoopFilesystem(inodes: 1000, options: mounted, making: making)
        let mount = try MountedDirectory(options, in: filesystem.path)
        do {
            try prepare(mount)
            try mount.mount()
            try body(mount)
            try mount.unmount()
        } catch {
            mount.abandon()
            throw error
        }
        withExtendedLifetime(filesystem) {}
    }

    deinit {
        do {
            try Script("umount \"$1\"; rm \"$2\"").run(path, image)
        } catch {
            print("\(path) could not be taken away: \(error)")
        }
    }
}
