// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem
import Synchronization

/// A plain directory that this process treats as a mount with a control socket.
///
/// Tests of clients use it on machines where nothing can be mounted. Only test programs call `serve`.
package enum StandInMount {
    private static let standIn = Mutex<(mount: MountEntry, socket: [UInt8])?>(nil)

    /// Treats `directory` as a mount that has the control socket `socket`.
    ///
    /// The path must be absolute, without symbolic links, and without characters that the mount table escapes.
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
