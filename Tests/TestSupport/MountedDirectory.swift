// SPDX-License-Identifier: Apache-2.0
import Glibc
import Synchronization

/// A new directory in the lab, with Truce mounted over it in the data mode of this run.
///
///     try MountedDirectory.with("hold=1s") { mount in … }
package final class MountedDirectory: Sendable {
    /// The path of the directory and the mount.
    package let path: String
    /// A path to the source directory that leads around the mount, for tests that read the files in the source.
    ///
    /// The path leads through a descriptor that this process opened before the mount. While the test runs, other processes of
    /// the same user can use the path.
    package let below: String
    private let source: Int32
    private let dataPath: Lab.DataPath
    private let options: [String]
    /// The environment variables that the mount command gets, besides those of the test.
    private let environment: [String: String]
    private let daemon = Mutex<Int32?>(nil)
    /// How many descriptors the daemon had after its start, without those of source files.
    private let firstDescriptors = Mutex<Int>(0)

    /// Makes a mount, runs the body, and checks that the unmount succeeds. If a step fails, removes the mount all the same.
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

    /// Creates the directory, but does not mount Truce over it.
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

    /// Mounts the directory a second time, after `unmount` or the daemon's death. `limit` is the daemon's limit of open files.
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

    /// Checks that the daemon uses no resources any more, when all files are closed and all claims have ended.
    package func checkForLeaks() throws {
        try LeakCheck.check(path, since: firstDescriptors.withLock { $0 }) { try status() }
    }

    package func status() throws -> MountStatus {
        try MountStatus(json: try TruceCommand.run("status", "--json", path).output)
    }

    package var counters: MountStatus.Counters { get throws { try status().counters } }

    /// Fails if the mount does not use the data path of this run.
    package func checkDataPath() throws {
        let found = try status().options.dataPath
        guard found == dataPath.rawValue else {
            throw TestFailure("the data path is \(found), not \(dataPath)")
        }
    }

    /// Unmounts with `truce unmount`, as a user does, and waits until the daemon has ended.
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

    /// Kills the daemon by SIGKILL, so that the daemon cannot clean up.
    package func kill() throws {
        let daemon = try daemonPID
        guard Glibc.kill(daemon, SIGKILL) == 0 else {
            throw TestFailure("the daemon \(daemon) cannot be killed")
        }
        try eventually(within: .seconds(10), "the end of daemon \(daemon)") { !Self.isAlive(daemon) }
    }

    /// Removes the mount of a failed test and ends its daemon. If one way fails, tries the next way.
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
            // The process is the daemon of this test. It was asked to end and its mount is gone, but it still runs.
            _ = Glibc.kill(pid, SIGKILL)
        }
    }

    package static func isMounted(_ path: String) throws -> Bool {
        try Program("findmnt").attempt("--types", "fuse.truce", "--mountpoint", path).isSuccess
    }

    /// Returns whether a process exists and has not ended.
    ///
    /// If only the first thread is a zombie, the process has not ended: its other threads can still have files open.
    package static func isAlive(_ pid: Int32) -> Bool {
        guard let status = ProcessStatus(of: pid), let state = status["State"] else { return false }
        return !state.hasPrefix("Z") || (status.threads ?? 0) > 1
    }
}

/// The fields of the text in `/proc/PID/status`.
package struct ProcessStatus: Sendable {
    private let fields: [String: String]

    /// Reads the fields of a process; returns nil if the process does not exist.
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

/// Reads and writes whole files in the test's own process. Tests use these functions only for files that no other program uses
/// at the same time.
package enum FileContents {
    /// Returns the contents of a file; nil if the file cannot be opened or read.
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
