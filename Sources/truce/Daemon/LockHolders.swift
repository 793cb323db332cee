// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// The processes that hold the lock of a file.
struct LockHolders {
    /// The process IDs. Usually there is one. There may be unrelated processes among them, because only inode numbers
    /// are compared, and files of two file systems may have the same number.
    let pids: [Int32]

    init(of file: borrowing OwnedDescriptor) { pids = Self.holders(of: file) }

    /// The users of these processes, the caller, and root. A mount of the source may belong to one of them.
    var users: Set<UInt32> {
        Set(pids.compactMap { ProcessInspection.status(ofThread: $0)?.user } + [0, geteuid()])
    }

    /// Returns the error message for a mount that is refused because the source is already mounted. `mount` is the
    /// existing mount, if it is visible.
    func sentence(on source: String, _ mount: MountEntry?) -> String {
        let source = source.printable
        guard let pid = pids.first else { return "'\(source)' is already mounted by truce" }
        if let place = (mount ?? self.mount)?.mountpoint.printable {
            return "'\(source)' is already mounted by truce by pid \(pid) at '\(place)'"
        }
        return """
            '\(source)' is already mounted by truce by pid \(pid), but its mount is not visible, and the daemon did not \
            end within \(SourceLock.timeout.components.seconds) s: the mount is being made, was removed while files are \
            open, or is in another mount namespace
            """
    }

    /// The mount that the first process serves as its daemon, at any path. Nil if the first process serves no mount.
    var mount: MountEntry? {
        pids.first.flatMap { pid in Self.mounts().first { Self.isServed($0, by: pid) } }
    }

    /// A description of the first process, if none of the processes can be a daemon of root or of the caller. Otherwise
    /// nil.
    ///
    /// Any process that may read a directory may also lock it. Such a process must not be able to prevent mounts of the
    /// directory.
    var foreignHolder: String? {
        let strangers = pids.compactMap(Self.foreignHolder)
        return strangers.count == pids.count ? strangers.first : nil
    }

    private static func foreignHolder(_ pid: Int32) -> String? {
        guard pid > 0 else { return nil }
        if kill(pid, 0) != 0, Errno.last == .noProcess { return "a process that has ended (pid \(pid))" }
        guard let user = ProcessInspection.status(ofThread: pid)?.user, user != 0, user != geteuid() else {
            return nil
        }
        return "pid \(pid) of user \(user)"
    }

    /// Returns the IDs of the processes that have locked the file. They are in lines of `/proc/locks` such as `1: FLOCK
    /// ADVISORY  WRITE 1234 08:01:5678 0 EOF`.
    private static func holders(of descriptor: borrowing OwnedDescriptor) -> [Int32] {
        do throws(Errno) {
            let inode = try descriptor.status().inode
            let text = String(decoding: try readAll("/proc/locks"), as: UTF8.self)
            return text.split(separator: "\n").compactMap { line in
                let fields = line.split(separator: " ")
                // The device is not compared: for some file systems, `/proc/locks` and stat(2) show different devices
                // for the same file.
                guard fields.count >= 6, fields[1] == "FLOCK", fields[5].hasSuffix(":\(inode)") else {
                    return nil
                }
                return Int32(fields[4])
            }
        } catch {
            // Without the process IDs, the error message for a refused mount says less, but is still true.
            return []
        }
    }

    private static func mounts() -> [MountEntry] {
        do throws(CommandFailure) { return try MountFinder.table().entries.filter(\.isTruce) } catch {
            return []
        }
    }

    private static func isServed(_ mount: MountEntry, by pid: Int32) -> Bool {
        do throws(CommandFailure) {
            return try DaemonClient.pid(of: mount) == pid
        } catch {
            // The mount's daemon belongs to another user, has ended, or does not answer.
            return false
        }
    }
}
