// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Synchronization

/// A plain directory that this process takes for a mount, with the control socket of whoever serves it.
///
/// For tests of what clients do, where nothing can be mounted. Only a test's program calls `serve`.
package enum StandInMount {
    private static let standIn = Mutex<(mount: MountEntry, socket: [UInt8])?>(nil)

    /// The directory is absolute, without links, and without anything that the mount table would escape.
    package static func serve(directory: [UInt8], by socket: [UInt8]) {
        let line = "0 0 0:0 / \(directory.printable) rw - fuse.truce truce rw,user_id=\(geteuid())\n"
        let mount = MountTable(parsing: Array(line.utf8)).entries.first
        standIn.withLock { $0 = mount.map { ($0, socket) } }
    }

    static func added(to table: MountTable) -> MountTable {
        guard var mount = standIn.withLock({ $0?.mount }) else { return table }
        mount.parent = table.containing(mount.mountpoint)?.id ?? mount.parent
        return MountTable(table.entries + [mount])
    }

    static func socket(of mount: MountEntry) -> [UInt8]? {
        standIn.withLock { $0?.mount.mountpoint == mount.mountpoint ? $0?.socket : nil }
    }
}
