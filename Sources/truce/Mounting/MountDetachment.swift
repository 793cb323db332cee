// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// Removes mounts. For root, this is a system call; for other users, the program `fusermount3` does it.
enum MountDetachment {
    /// The reason why a mount could not be removed.
    enum Obstacle: Error {
        case busy
        case notAllowed
        /// Another process has removed the mount, or has renamed a directory on its path during every attempt.
        case moved
        case other(String)
    }

    static func detach(_ mount: MountEntry, lazily: Bool) throws(Obstacle) {
        do throws(Obstacle) {
            if geteuid() == 0 {
                try detachAsRoot(mount, lazily: lazily)
            } else {
                try detachAsUser(mount.mountpoint, lazily: lazily)
            }
        } catch .busy {
            guard let inner = mountpoint(inside: mount) else { throw .busy }
            throw .other("'\(inner.printable)' is mounted inside it")
        }
    }

    /// Returns the mountpoint of a mount inside this mount. An inner mount keeps this mount busy, even if no process
    /// uses the two mounts.
    private static func mountpoint(inside mount: MountEntry) -> [UInt8]? {
        do throws(CommandFailure) {
            return try MountFinder.table().entries.first { $0.parent == mount.id }?.mountpoint
        } catch {
            // The mount table cannot be read. The error message then lists only the processes that use the mount.
            return nil
        }
    }

    /// Removes exactly this mount, whatever its path is now. A user may have renamed a directory on the path, and
    /// another mount may have got the old path.
    private static func detachAsRoot(_ mount: MountEntry, lazily: Bool) throws(Obstacle) {
        do throws(Errno) {
            if lazily {
                guard try mount.detach(naming: { _ in }) else { throw .stale }
            } else {
                try mount.unmountUnused()
            }
        } catch .busy {
            throw .busy
        } catch .notPermitted {
            throw .notAllowed
        } catch .stale {
            throw .moved
        } catch {
            throw .other("\(error)")
        }
    }

    /// Removes the mount at a path. `fusermount3` checks the user's rights, so it removes only the user's own mounts.
    static func detachAsUser(_ mountpoint: [UInt8], lazily: Bool) throws(Obstacle) {
        guard let program = Fusermount.path else { throw .other(Fusermount.absence) }
        let (code, text): (Int32, String)
        do throws(Errno) {
            let options = [Array((lazily ? "-uz" : "-u").utf8), Array("--".utf8), mountpoint]
            (code, text) = try Fusermount.run(program, options)
        } catch {
            throw .other("\(program) could not be run: \(error)")
        }
        guard code != 0 else { return }
        if text.contains("Device or resource busy") { throw .busy }
        if text.contains("not permitted") || text.contains("not found in") { throw .notAllowed }
        throw .other(text.split(separator: "\n").map { String($0).printable }.joined(separator: "; "))
    }
}

/// The program `fusermount3`, which runs with root's rights. By it, users other than root mount and unmount.
enum Fusermount {
    static let absence = "fusermount3 is missing; install the package fuse3, or mount as root"

    static var path: String? {
        let places =
            ["/usr/bin", "/bin"] + (environmentVariable("PATH") ?? "").split(separator: ":").map(String.init)
        return places.map { $0 + "/fusermount3" }.first { access($0, X_OK) == 0 }
    }

    /// Runs `fusermount3` with English messages (the C locale). Only the text of its message shows why it failed.
    static func run(_ program: String, _ arguments: [[UInt8]]) throws(Errno) -> (Int32, String) {
        var spawner = ProcessSpawner(
            program, arguments: [Array("fusermount3".utf8)] + arguments, environment: ["LC_ALL=C"])
        let pipe = try Pipe()
        try spawner.pass(pipe.writeEnd.rawValue, as: STDERR_FILENO)
        let child = try spawner.start()
        let text = try pipe.reading().readToEnd()
        return (try OtherProcess.exitCode(of: child), String(decoding: text, as: UTF8.self))
    }
}

/// Returns the value of an environment variable; nil if it is not set.
func environmentVariable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
