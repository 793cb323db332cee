// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// The place of an item in a mount: the open directory above it, and its name.
///
/// No other program can lead the way to another place any more, such as by a symbolic link in the place of a directory. The item
/// itself need not exist.
struct SteadyPlace: ~Copyable {
    private let directory: OwnedDescriptor
    private let name: NameBytes

    /// Throws ELOOP if a directory on the path is a symbolic link. The path begins at the root of the mount, and is not empty.
    init(_ pathInMount: [UInt8], in mount: MountEntry) throws(Errno) {
        let slash = pathInMount.lastIndex(of: UInt8(ascii: "/"))
        name = NameBytes(Array(pathInMount[(slash.map { $0 + 1 } ?? 0)...]))
        let root = try mount.mountpoint.withPath { (path) throws(Errno) in
            try OwnedDescriptor.openPath(path)
        }
        guard let slash else {
            directory = root
            return
        }
        directory = try root.openResolved(Array(pathInMount[..<slash]))
    }

    /// A path to the item, for system calls of this process. It does not lead to a link's target, if the call follows no link.
    var path: [UInt8] { Array("/proc/self/fd/\(directory.rawValue)/".utf8) + name.bytes }

    /// Returns nil if the item does not exist.
    borrowing func status() throws(Errno) -> FileStatus? {
        do throws(Errno) {
            return try name.withName { (name) throws(Errno) in try directory.status(of: name) }
        } catch {
            guard error == .noEntry else { throw error }
            return nil
        }
    }

    borrowing func remove(isDirectory: Bool) throws(Errno) {
        try name.withName { (name) throws(Errno) in try directory.remove(name, isDirectory: isDirectory) }
    }

    borrowing func makeDirectory(mode: UInt32) throws(Errno) {
        try name.withName { (name) throws(Errno) in try directory.makeDirectory(name, mode: mode) }
    }
}
