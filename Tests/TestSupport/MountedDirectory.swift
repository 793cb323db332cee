// SPDX-License-Identifier: Apache-2.0
import Glibc
import Synchronization

/// A new directory of the lab with Truce mounted over it, in the data mode of the run.
///
///     try MountedDirectory.with("hold=1s") { mount in … }
package final class MountedDirectory: Sendable {
    /// The path of the mount.
    package let path: String
    /// The source directory, reached by a descriptor opened before the mount, to read the real files. Other processes
    /// of the same user can use this path during the test, too.
    package let below: String
    private let source: Int32
    private let dataPath: Lab.DataPath
    private let options: [String]
    /// Environment variables of the mount command, besides those of the test.
    private let environment: [String: String]
    private let daemon = Mutex<Int32?>(nil)
    /// Number of the new daemon's descriptors that are not files below the mount.
    private let firstDescriptors = Mutex<Int>(0)

    /// Mounts, runs the body, unmounts, and checks the unmount. After a failure, too, nothing stays mounted.
    @discardableResult
    package static func with<Value>(
        _ options: String..., environment: [String: String] = [:],
        prepare: (_ source: String) throws -> Void = { _ in },
        body: (MountedDirectory) throws -> Value
    ) throws -> Value {
        let mount = try MountedDirectory(options, environment: environment)
        do {
            try prepare(mount.path)
            try mount.mount()
            let result = try body(mount)
            try mount.unmount()
            return result
        } catch {
            mount.abandon()
            throw error
        }
    }

    /// Creates the directory without mounting it.
    package init(
        _ options: [String] = [], in parent: String? = nil, environment: [String: String] = [:]
    ) throws {
        self.environment = environment
        path = try Lab.freshDirectory("mount", in: parent)
        dataPath = try Lab.dataPath
        self.options = options + (dataPath == .daemon ? ["data=daemon"] : [])
        source = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard source >= 0 else { throw TestFailure("\(path): \(describe(errno))") }
        below = "/proc/\(getpid())/fd/\(source)"
    }

    deinit { close(source) }

    package var daemonPID: Int32 {
        get throws {
            guard let pid = daemon.withLock({ $0 }) else { throw TestFailure("\(path) is not mounted") }
            return pid
        }
    }

    /// Mounts again after `unmount` or the daemon's death. A limit bounds the daemon's open files.
    package func mount(descriptors limit: Int? = nil) throws {
        let words = ["mount", path] + (options.isEmpty ? [] : ["-o", options.joined(separator: ",")])
        if let limit {
            let binary = try Lab.variable("TRUCE_BINARY")
            try Script("ulimit -n \"$1\"; shift; \"$@\"").attempt(arguments: ["\(limit)", binary] + words)
                .requireSuccess()
        } else {
            try TruceCommand.runAll(words, with: environment)
        }
        let status = try status()
        daemon.withLock { $0 = status.pid }
        firstDescriptors.withLock { $0 = LeakCheck.otherDescriptors(of: status) }
    }

    /// Checks that the daemon has no resources left after all files are closed and all claims have ended.
    package func checkForLeaks() throws {
        try LeakCheck.check(path, since: firstDescriptors.withLock { $0 }) { try status() }
    }

    package func status() throws -> MountStatus {
        try MountStatus(json: try TruceCommand.run("status", "--json", path).output)
    }

    package var counters: MountStatus.Counters { get throws { try status().counters } }

    /// Fails if the mount does not use this run's data path.
    package func checkDataPath() throws {
        let found = try status().options.dataPath
        guard found == dataPath.rawValue else {
            throw TestFailure("the data path is \(found), not \(dataPath)")
        }
    }

    /// Unmounts as a user does, and waits for the end of the daemon.
    package func unmount() throws {
        let pid = try daemonPID
        try checkForLeaks()
        try TruceCommand.run("unmount", path)
        daemon.withLock { $0 = nil }
        guard try !Self.isMounted(path) else {
            throw TestFailure("\(path) is still mounted after 'truce unmount'")
        }
        try eventually(within: .seconds(10), "the end of daemon \(pid) after 'truce unmount'") {
            !Self.isAlive(pid)
        }
    }

    /// Kills the daemon, so that it cannot clean up.
    package func kill() throws {
        let daemon = try daemonPID
        guard Glibc.kill(daemon, SIGKILL) == 0 else {
            throw TestFailure("the daemon \(daemon) cannot be killed")
        }
        try eventually(within: .seconds(10), "the end of daemon \(daemon)") { !Self.isAlive(daemon) }
    }

    /// Removes the mount of a failed test by all means.
    package func abandon() {
        do {
            if try Self.isMounted(path) { _ = try TruceCommand.attempt("unmount", "--lazy", path) }
            if try Self.isMounted(path) { _ = try Program("fusermount3").attempt("-u", "-z", path) }
        } catch {
            print("\(path) could not be unmounted: \(error)")
        }
        guard let pid = daemon.withLock({ $0 }) else { return }
        do {
            try eventually(within: .seconds(3), "the end of daemon \(pid)") { !Self.isAlive(pid) }
        } catch {
            // This is our own daemon: it was asked to end, and its mount is gone.
            _ = Glibc.kill(pid, SIGKILL)
        }
    }

    package static func isMounted(_ path: String) throws -> Bool {
        try Program("findmnt").attempt("--types", "fuse.truce", "--mountpoint", path).isSuccess
    }

    /// Whether a process exists and is no zombie. The first thread may be a zombie while other threads still have files
    /// open.
    package static func isAlive(_ pid: Int32) -> Bool {
        guard let status = ProcessStatus(of: pid), let state = status["State"] else { return false }
        return !state.hasPrefix("Z") || (status.threads ?? 0) > 1
    }
}

/// The fields of `/proc/PID/status`.
package struct ProcessStatus: Sendable {
    private let fields: [String: String]

    /// Nil if there is no such process.
    package init?(of pid: Int32) {
        guard let bytes = FileContents.ofFile("/proc/\(pid)/status") else { return nil }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        fields = lines.reduce(into: [:]) { fields, line in
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 {
                fields[String(parts[0])] = parts[1].drop { $0 == "\t" || $0 == " " }.description
            }
        }
    }

    package subscript(_ name: String) -> String? { fields[name] }
    package var threads: Int? { self["Threads"].flatMap { Int($0) } }
}

/// Reads and writes whole files in the test itself, so never use it where programs compete for them.
package enum FileContents {
    /// Returns nil if the file cannot be opened or read.
    package static func ofFile(_ path: String) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var found: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = buffer.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
            guard count >= 0 else { return nil }
            guard count > 0 else { return found }
            found += buffer[..<count]
        }
    }

    package static func text(of path: String) throws -> String {
        guard let bytes = ofFile(path) else {
            throw TestFailure("\(path) cannot be read: \(describe(errno))")
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    package static func write(_ text: String, to path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw TestFailure("\(path): \(describe(errno))") }
        defer { close(descriptor) }
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else { throw TestFailure("\(path): \(describe(errno))") }
            bytes = bytes.dropFirst(count)
        }
    }
}
