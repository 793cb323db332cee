// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc
import Synchronization

/// Tells when files at given paths may have changed, by inotify(7). The files and their directories need not exist.
///
/// Each directory on the paths is watched, because a file also changes if one of its directories is created or renamed.
package final class FileWatch: Sendable {
    /// Whether an event comes for each change of the files.
    package enum Coverage: Hashable, Sendable {
        case complete
        /// A directory cannot be watched, or other machines can change it. The caller must look at the files by itself, too.
        case partial
    }

    private let watch: ChangeWatch
    private let paths: [String]
    private let root: OwnedDescriptor
    /// For each watched directory, the names in it that lead to one of the files.
    private let names = Mutex<[Int32: Set<[UInt8]>]>([:])

    /// Makes a watch that watches nothing before the first ``renew()``.
    ///
    /// - Parameters:
    ///   - paths: The paths of the files.
    ///   - root: The directory at which relative paths begin.
    /// - Throws: The error of inotify(7), such as EMFILE if the user has too many instances.
    package init(of paths: [String], below root: consuming OwnedDescriptor) throws(Errno) {
        watch = try ChangeWatch()
        self.paths = paths
        self.root = root
    }

    /// Watches the directories on the paths that exist now, and no others. The caller looks at the files afterwards, because
    /// changes before this call are not reported.
    ///
    /// The calling thread may have to wait for the file systems of the files.
    package func renew() -> Coverage {
        var found: [Int32: Set<[UInt8]>] = [:]
        var coverage = Coverage.complete
        for path in paths where add(path, to: &found) == .partial { coverage = .partial }
        let former = names.withLock { names in
            defer { names = found }
            return names
        }
        for number in former.keys where found[number] == nil { watch.remove(number) }
        return coverage
    }

    private func add(_ path: String, to found: inout [Int32: Set<[UInt8]>]) -> Coverage {
        var coverage = Coverage.complete
        do throws(Errno) {
            var directory = try start(of: path)
            let parts = path.split(separator: "/")
            for (index, name) in parts.enumerated() {
                if try !directory.filesystemStatus().isChangedLocally { coverage = .partial }
                do throws(Errno) {
                    found[try watch.addNames(of: directory), default: []].insert(Array(name.utf8))
                } catch {
                    coverage = .partial
                }
                if index < parts.count - 1 { directory = try Self.open(String(name), in: directory) }
            }
        } catch {
            // If the next directory is missing, the watch of the last one reports its creation.
            if error != .noEntry, error != .notADirectory { coverage = .partial }
        }
        return coverage
    }

    private func start(of path: String) throws(Errno) -> OwnedDescriptor {
        if path.hasPrefix("/") { return try .openPath("/") }
        return try .duplicating(root.rawValue)
    }

    /// Opens a directory, also by a symbolic link, as the open of the file does.
    private static func open(
        _ name: String, in directory: borrowing OwnedDescriptor
    ) throws(Errno) -> OwnedDescriptor {
        let parent = directory.rawValue
        return OwnedDescriptor(
            adopting: try retryingOnInterrupt {
                openat(parent, name, CLINUX_O_PATH | O_DIRECTORY | O_CLOEXEC)
            })
    }

    /// Sleeps until directories on the paths have changed, or until `moment`, which is a time of the monotonic clock in
    /// nanoseconds. ``takeChanges()`` then tells whether the files are concerned.
    package func wait(until moment: UInt64?) { _ = watch.wait(until: moment) }

    /// Takes all reports, and returns whether one of them concerns a name on the paths.
    package func takeChanges() -> Bool {
        let names = names.withLock { $0 }
        var isConcerned = false
        while true {
            let changes: ChangeWatch.Changes
            do throws(Errno) { changes = try watch.read() } catch { return true }
            if changes.changes.isEmpty, changes.ended.isEmpty, !changes.hasOverflowed { return isConcerned }
            isConcerned =
                isConcerned || changes.hasOverflowed || changes.ended.contains { names[$0] != nil }
                || changes.changes.contains { change in
                    guard case .watch(let number) = change.directory else { return false }
                    return names[number]?.contains(change.name) ?? false
                }
        }
    }
}
