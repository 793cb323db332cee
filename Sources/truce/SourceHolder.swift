// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// Who holds the lock on a source that is mounted already.
struct SourceHolder {
    private let source: String
    /// One, as a rule; but numbers of files are told, and two file systems may have the same.
    private let pids: [Int32]
    /// Of whichever of them serves a mount.
    private let mountpoint: String?
    private let isMounted: Bool

    init(of descriptor: borrowing OwnedDescriptor, on source: String) {
        self.source = source
        pids = Self.holders(of: descriptor)
        let mounts = Self.mounts()
        isMounted = mounts?.contains { $0.source == Array(source.utf8) } ?? true
        mountpoint = pids.first.flatMap { pid in
            mounts?.first { Self.isServed($0, by: pid) }?.mountpoint.shown
        }
    }

    var sentence: String {
        let source = source.shown
        guard let pid = pids.first else { return "'\(source)' is already mounted by truce" }
        if let mountpoint {
            return "'\(source)' is already mounted by truce by pid \(pid) at '\(mountpoint)'"
        }
        return """
            '\(source)' is already mounted by truce by pid \(pid), whose mount is not to be seen: it is being made, was \
            taken away while files are open, or is in another mount namespace
            """
    }

    /// Whoever may read a directory may lock it, and nobody could mount it then. A daemon is known by its mount, or it is root's
    /// or the caller's; and it lives as long as its lock does.
    var stranger: String? {
        guard mountpoint == nil, !isMounted else { return nil }
        let strangers = pids.compactMap(Self.stranger)
        return strangers.count == pids.count ? strangers.first : nil
    }

    private static func stranger(_ pid: Int32) -> String? {
        guard pid > 0 else { return nil }
        if kill(pid, 0) != 0, Errno.last == .noProcess { return "a process that has ended (pid \(pid))" }
        guard let user = ProcessInspection.status(ofThread: pid)?.user, user != 0, user != geteuid() else {
            return nil
        }
        return "pid \(pid) of user \(user)"
    }

    /// `/proc/locks`: `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`
    private static func holders(of descriptor: borrowing OwnedDescriptor) -> [Int32] {
        do throws(Errno) {
            let inode = try descriptor.status().inode
            let text = String(decoding: try readAll("/proc/locks"), as: UTF8.self)
            return text.split(separator: "\n").compactMap { line in
                let fields = line.split(separator: " ")
                // Not the device: some file systems show another one here than stat(2) does.
                guard fields.count >= 6, fields[1] == "FLOCK", fields[5].hasSuffix(":\(inode)") else {
                    return nil
                }
                return Int32(fields[4])
            }
        } catch {
            // The sentence is as true without the number.
            return []
        }
    }

    private static func mounts() -> [MountEntry]? {
        do throws(CommandFailure) { return try MountFinder.table().entries.filter(\.isTruce) } catch {
            return nil
        }
    }

    private static func isServed(_ mount: MountEntry, by pid: Int32) -> Bool {
        do throws(CommandFailure) {
            return try DaemonClient.pid(of: mount) == pid
        } catch {
            // Somebody else's, dead, or stopped.
            return false
        }
    }
}
