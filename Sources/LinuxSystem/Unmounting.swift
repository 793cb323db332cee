// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// Taking a mount away: by the system call as root, by `fusermount3` as anybody else.
package enum Unmounting {
    private static let programs = ["/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3"]

    /// Returns what went wrong, if anything did.
    package static func unmount(_ mountpoint: String, lazily: Bool) -> Errno? {
        guard geteuid() != 0 else {
            return clinux_umount(mountpoint, lazily ? 1 : 0) == 0 ? nil : .last
        }
        var arguments = ["fusermount3", "-u", "-q"].map { Array($0.utf8) }
        if lazily { arguments.append(Array("-z".utf8)) }
        arguments += [Array("--".utf8), Array(mountpoint.utf8)]
        guard let path = programs.first(where: { access($0, X_OK) == 0 }) else { return .noEntry }
        do throws(Errno) {
            let spawning = Spawning(path, arguments: arguments, environment: ["PATH=/usr/bin:/bin"])
            let child = try spawning.start()
            return try OtherProcess.exitCode(of: child) == 0 ? nil : .busy
        } catch {
            return error
        }
    }
}
