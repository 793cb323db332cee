// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The mountpoints below the source, as the mount table has them now.
///
/// A mountpoint is a directory that a mount covers. The file system below lists a mountpoint with the inode number of the
/// covered directory, but `stat` returns the number of the mounted directory. A listing by the daemon must return the second
/// number, so the daemon needs the names of the mountpoints.
final class SubmountPoints: Sendable {
    /// The names of the mountpoints in each directory, by the directory's path from the source's root.
    private typealias Names = [[UInt8]: Set<[UInt8]>]

    private let source: [UInt8]
    private let watch: MountTableMonitor
    /// The mountpoints as they were last read. After a change of the mount table, the mountpoints are read again under this
    /// lock. Only listings wait for the lock.
    private let known: Mutex<Names>

    /// Returns nil if the mount table cannot be watched. Listings then return the inode numbers of the covered directories.
    init?(_ source: [UInt8]) {
        do throws(Errno) {
            watch = try MountTableMonitor()
            self.source = source
            known = Mutex(try Self.read(below: source))
        } catch {
            return nil
        }
    }

    func names(in directory: Node) -> Set<[UInt8]> {
        let names = known.withLock { known in
            if watch.hasChanged {
                do throws(Errno) { known = try Self.read(below: source) } catch { return known }
            }
            return known
        }
        return names.isEmpty ? [] : names[directory.path] ?? []
    }

    private static func read(below source: [UInt8]) throws(Errno) -> Names {
        let slash = UInt8(ascii: "/")
        let start = source.split(separator: slash).count
        var names: Names = [:]
        for entry in try MountTable.current().entries where entry.mountpoint.isPath(atOrBelow: source) {
            let parts = entry.mountpoint.split(separator: slash).dropFirst(start)
            guard let name = parts.last else { continue }
            let directory = Array(parts.dropLast().joined(separator: [slash]))
            names[directory, default: []].insert(Array(name))
        }
        return names
    }
}
