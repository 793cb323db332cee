// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import ControlProtocol
import FoundationEssentials
import Glibc
import LinuxSystem

struct KeptCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "kept",
            abstract: "Lists the preserved versions of files, or restores a version.",
            usage: "truce kept PATH [--json]\ntruce kept PATH --restore ID TO [--force]",
            discussion: """
                ID must be a version of PATH, or of a file below it. TO may be - for standard output. With --force, a \
                file TO in a mount is overwritten in place: its owner, rights and attributes stay, and its former \
                contents are preserved first.
                """)
    }

    @Flag(help: "Print the list as one line of JSON.")
    var json = false

    @Option(help: "Copy the version with this ID to TO; - is standard output.", completion: .none)
    var restore: String?

    @Flag(help: "Replace TO if it exists.")
    var force = false

    @Argument(help: "A path in the mount; versions of it and of files below it are listed.")
    var path: String

    @Argument(help: "The file to write the version to; only with --restore.")
    var to: String?

    func validate() throws {
        switch (restore, to) {
        case (nil, nil): break
        case (let id?, _?):
            guard VersionIDFormat.isValid(id) else {
                throw ValidationError("'\(id)' is not the ID of a version; 'truce kept PATH' lists them")
            }
        case (nil, _?): throw ValidationError("a second path makes sense only with --restore ID")
        case (_?, nil): throw ValidationError("--restore needs the PATH of the mount and the file TO write")
        }
    }

    func run() throws {
        let mounted = try Watchdog.withDeadline { try MountedPath(RawArgument.bytes(of: path)) }
        var client = try Watchdog.withDeadline { try DaemonClient(to: mounted.mount) }
        if let restore, let to {
            let target = try RawArgument.bytes(of: to)
            let slash = target.lastIndex(of: UInt8(ascii: "/"))
            let directory = slash.map { Array(target[...$0]) } ?? [UInt8(ascii: ".")]
            try Watchdog.whileResponsive(to: directory) {
                try copy(restore, of: mounted.pathInMount, to: target, from: &client)
            }
        } else {
            try list(mounted.pathInMount, from: &client)
        }
    }

    private func list(_ pathInMount: [UInt8], from client: inout DaemonClient) throws(CommandFailure) {
        let result = try client.kept(under: pathInMount)
        do {
            try CommandOutput.print(result, asJSON: json) { result.lines }
        } catch {
            throw CommandFailure(.failed, "the list could not be written as JSON: \(error)")
        }
    }

    /// Restores a version. The command itself writes the file, and not the daemon, because the user's rights must
    /// apply.
    private func copy(
        _ id: String, of path: [UInt8], to target: [UInt8], from client: inout DaemonClient
    ) throws {
        if target == [UInt8(ascii: "-")] {
            return try fetch(id, of: path, from: &client) { bytes throws(CommandFailure) in
                do throws(Errno) { try OwnedDescriptor.duplicating(STDOUT_FILENO).writeAll(bytes) } catch {
                    throw CommandFailure(.failed, "standard output cannot be written: \(error)")
                }
            }
        }
        if force, let document = try RestoredDocument(at: target) {
            let contents = try UnnamedFile()
            try fetch(id, of: path, from: &client) { bytes throws(CommandFailure) in
                try contents.append(bytes)
            }
            return try document.write(contents.descriptor)
        }
        var file = try RestoredFile(at: target, replacing: force)
        try fetch(id, of: path, from: &client) { bytes throws(CommandFailure) in try file.append(bytes) }
        try file.finish()
    }

    /// Reads a version in pieces, and calls `handOn` with each piece.
    ///
    /// Fails if the version was not preserved from `path` or from a file below `path`.
    private func fetch(
        _ id: String, of path: [UInt8], from client: inout DaemonClient,
        _ handOn: ([UInt8]) throws(CommandFailure) -> Void
    ) throws(CommandFailure) {
        var offset: Int64 = 0
        while true {
            let piece = try client.read(id, of: path, at: offset)
            guard let bytes = piece.bytes else {
                throw CommandFailure(.failed, "the daemon sent contents that are not base64")
            }
            try handOn(bytes)
            offset += Int64(bytes.count)
            if piece.isAtEnd { return }
        }
    }
}

extension VersionListResult {
    var lines: [String] {
        var lines = entries.map { entry in
            let time = Date(timeIntervalSince1970: entry.time).formatted(.iso8601)
            let writers = (entry.writers ?? []).map(\.printable).joined(separator: ", ")
            let note = writers.isEmpty ? "" : "  (still written by \(writers))"
            return "\(entry.id)  \(time)  \(entry.size) bytes  \(entry.cause)  \(entry.path.printable)\(note)"
        }
        if isTruncated { lines.append("(more; these are the newest)") }
        return lines
    }
}

/// A new file that gets its final name only when its contents are complete.
struct RestoredFile: ~Copyable {
    private let target: [UInt8]
    private let temporary: [UInt8]
    private let isReplacing: Bool
    private let file: OwnedDescriptor
    private var isFinished = false

    init(at target: [UInt8], replacing: Bool) throws(CommandFailure) {
        self.target = target
        isReplacing = replacing
        // The temporary file is made in the target's directory, so that both are on the same file system and a rename
        // is possible.
        let slash = target.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? 0
        temporary = Array(target[..<slash]) + Array(".truce-restored-\(getpid())".utf8)
        guard replacing || target.withPath({ access($0, F_OK) }) != 0 else {
            throw CommandFailure(.failed, "'\(target.printable)' exists; use --force to replace it")
        }
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
        do throws(Errno) {
            let descriptor = try retryingOnInterrupt { [temporary] in
                temporary.withPath { open($0, flags, 0o600) }
            }
            file = OwnedDescriptor(adopting: descriptor)
        } catch {
            throw CommandFailure(.failed, "'\(target.printable)' cannot be written: \(error)")
        }
    }

    deinit {
        if !isFinished { _ = temporary.withPath { unlink($0) } }
    }

    mutating func append(_ bytes: [UInt8]) throws(CommandFailure) {
        var rest = bytes[...]
        let descriptor = file.rawValue
        while !rest.isEmpty {
            let part = Array(rest)
            do throws(Errno) {
                rest = rest.dropFirst(try retryingOnInterrupt { write(descriptor, part, part.count) })
            } catch {
                throw CommandFailure(.failed, "'\(target.printable)' cannot be written: \(error)")
            }
        }
    }

    /// Gives the complete file its final name in one step. Fails if the name exists and the user did not give
    /// `--force`.
    mutating func finish() throws(CommandFailure) {
        let result = temporary.withPath { from in
            target.withPath { to in
                guard fsync(file.rawValue) == 0 else { return CInt(-1) }
                return isReplacing ? rename(from, to) : link(from, to)
            }
        }
        guard result == 0 else {
            throw CommandFailure(.failed, "'\(target.printable)' cannot be written: \(Errno.last)")
        }
        // Without `--force`, the file has got its final name by link(2), and still has the temporary name. `deinit`
        // removes the temporary name.
        isFinished = isReplacing
    }
}
