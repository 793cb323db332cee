// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// Removes mounts: root uses the system call, any other user runs `fusermount3`.
enum MountDetachment {
    /// The reason why a mount could not be removed.
    enum Obstacle: Error {
        case busy
        case notAllowed
        /// Another process has removed the mount, or has renamed a parent directory at every attempt.
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

    /// Returns the path of a mount inside this mount. An inner mount keeps this mount busy even if no process uses it.
    private static func mountpoint(inside mount: MountEntry) -> [UInt8]? {
        do throws(CommandFailure) {
            return try MountFinder.table().entries.first { $0.parent == mount.id }?.mountpoint
        } catch {
            // Without the mount table, the error message names only the processes that use the mount.
            return nil
        }
    }

    /// Removes exactly this mount, even if it has moved: a user may have renamed a parent directory, and another mount may have
    /// the old path.
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

    /// Removes a mount by its path. `fusermount3` uses the user's rights, so it removes only the user's own mounts.
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

/// The set-user-ID program `fusermount3`, by which libfuse mounts for users other than root.
enum Fusermount {
    static let absence = "fusermount3 is missing; install the package fuse3, or mount as root"

    static var path: String? {
        let places =
            ["/usr/bin", "/bin"] + (environmentVariable("PATH") ?? "").split(separator: ":").map(String.init)
        return places.map { $0 + "/fusermount3" }.first { access($0, X_OK) == 0 }
    }

    /// Runs `fusermount3` in the C locale, because only the text of its error message shows why it failed.
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
