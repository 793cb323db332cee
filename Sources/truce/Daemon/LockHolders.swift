// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// The processes that hold the lock of a file.
struct LockHolders {
    /// Usually one. But only inode numbers are compared, and two file systems may have the same number.
    let pids: [Int32]

    init(of file: borrowing OwnedDescriptor) { pids = Self.holders(of: file) }

    /// The users that may own the holders' mounts: the users of the holders, the caller and root.
    var users: Set<UInt32> {
        Set(pids.compactMap { ProcessInspection.status(ofThread: $0)?.user } + [0, geteuid()])
    }

    /// Explains why a mount is refused; `mount` is a mount that shows the source.
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

    /// The mount that the first holder serves, under any path.
    var mount: MountEntry? {
        pids.first.flatMap { pid in Self.mounts().first { Self.isServed($0, by: pid) } }
    }

    /// Describes a holder if none of the holders can be a daemon of root or of the caller. Any process that may read a
    /// directory may lock it, and could otherwise prevent every mount of it.
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

    /// `/proc/locks`: `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`
    private static func holders(of descriptor: borrowing OwnedDescriptor) -> [Int32] {
        do throws(Errno) {
            let inode = try descriptor.status().inode
            let text = String(decoding: try readAll("/proc/locks"), as: UTF8.self)
            return text.split(separator: "\n").compactMap { line in
                let fields = line.split(separator: " ")
                // The device is not compared: some file systems show another device here than stat(2).
                guard fields.count >= 6, fields[1] == "FLOCK", fields[5].hasSuffix(":\(inode)") else {
                    return nil
                }
                return Int32(fields[4])
            }
        } catch {
            // The sentence is true without the number, too.
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
            // The daemon is another user's, dead, or stopped.
            return false
        }
    }
}
