// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// Takes mounts away: by the system call as root, through `fusermount3` as a user.
enum Detaching {
    /// Why it did not work.
    enum Obstacle: Error {
        case busy
        case notAllowed
        case other(String)
    }

    static func detach(_ mountpoint: [UInt8], lazily: Bool) throws(Obstacle) {
        do throws(Obstacle) {
            if geteuid() == 0 {
                try detachAsRoot(mountpoint, lazily: lazily)
            } else {
                try detachAsUser(mountpoint, lazily: lazily)
            }
        } catch .busy {
            guard let inner = mount(inside: mountpoint) else { throw .busy }
            throw .other("'\(inner.shown)' is mounted inside it")
        }
    }

    /// What keeps a mount busy without any process that uses it.
    private static func mount(inside mountpoint: [UInt8]) -> [UInt8]? {
        do throws(CommandFailure) {
            let table = try MountFinder.table()
            let outer = table.top(at: mountpoint)
            return table.entries.first { $0.parent == outer?.id }?.mountpoint
        } catch {
            // Then the processes are named, and nothing else.
            return nil
        }
    }

    private static func detachAsRoot(_ mountpoint: [UInt8], lazily: Bool) throws(Obstacle) {
        do throws(Errno) {
            try MountTable.detach(mountpoint, lazily: lazily)
        } catch .busy {
            throw .busy
        } catch .notPermitted {
            throw .notAllowed
        } catch {
            throw .other("\(error)")
        }
    }

    private static func detachAsUser(_ mountpoint: [UInt8], lazily: Bool) throws(Obstacle) {
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
        throw .other(text.split(separator: "\n").map { String($0).shown }.joined(separator: "; "))
    }
}

/// The set-user-ID program by which libfuse lets users mount.
enum Fusermount {
    static let absence = "fusermount3 is missing; install the package fuse3, or mount as root"

    static var path: String? {
        let places =
            ["/usr/bin", "/bin"] + (environment("PATH") ?? "").split(separator: ":").map(String.init)
        return places.map { $0 + "/fusermount3" }.first { access($0, X_OK) == 0 }
    }

    /// Runs it in the C locale, since its words are all it says about why it failed.
    static func run(_ program: String, _ arguments: [[UInt8]]) throws(Errno) -> (Int32, String) {
        var spawning = Spawning(
            program, arguments: [Array("fusermount3".utf8)] + arguments, environment: ["LC_ALL=C"])
        let pipe = try Pipe()
        try spawning.pass(pipe.writeEnd.rawValue, as: STDERR_FILENO)
        let child = try spawning.start()
        let text = try pipe.reading().readToEnd()
        return (try OtherProcess.exitCode(of: child), String(decoding: text, as: UTF8.self))
    }
}

/// An environment variable; nil if it is not set.
func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
