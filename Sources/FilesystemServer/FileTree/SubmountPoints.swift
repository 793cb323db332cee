// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// The mountpoints below the source, as the mount table has them now.
///
/// A directory's own listing has the inode numbers of covered directories. `stat` has those of the mounted ones.
final class SubmountPoints: Sendable {
    /// The names of mountpoints, by the path of their directory from the source.
    private typealias Names = [[UInt8]: Set<[UInt8]>]

    private let source: [UInt8]
    private let watch: MountTableMonitor
    /// The mount table is read under this lock after a change. Only listings wait for the lock.
    private let known: Mutex<Names>

    /// Nil if the mount table cannot be watched. Then a mountpoint is listed with the number of the covered directory.
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
