// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Glibc
import LinuxSystem

/// Compares a version with the file or with another version, by `diff -u` or a tool of the user.
///
/// The tool gets copies in a new directory that only the user may enter. The copies have names of the command, because the name
/// of a document can look like an option.
struct VersionComparison: ~Copyable {
    private let mounted: MountedPath
    private let tool: String?
    private let directory: TemporaryFolder

    init(of mounted: MountedPath, with tool: String?) throws(CommandFailure) {
        (self.mounted, self.tool) = (mounted, tool)
        directory = try TemporaryFolder()
    }

    /// Runs the comparison. Without an ID, the latest version is compared with the file.
    func run(_ ids: [String], _ client: inout DaemonClient) throws {
        let path = mounted.pathInMount
        var ids = ids
        if ids.isEmpty {
            let latest = try client.versions(VersionListParameters(path: path)).entries.first
            guard let latest else { throw CommandFailure(.notFound, "the file has no versions") }
            ids = [latest.id]
        }
        var files: [[UInt8]] = []
        for id in ids {
            let file = try directory.file("version-\(files.count + 1)-\(id)")
            try client.fetch(id, of: path) { bytes throws(CommandFailure) in try file.append(bytes) }
            files.append(file.path)
        }
        if files.count == 1 { files.append(try copyOfFile()) }
        try compare(files)
    }

    /// Copies the file as it is now. The command opens it like any other program, so it takes its turn.
    private func copyOfFile() throws -> [UInt8] {
        let place = mounted.absolute(mounted.pathInMount)
        let copy = try directory.file("present")
        do throws(Errno) {
            let descriptor = try retryingOnInterrupt {
                place.withPath { open($0, O_RDONLY | O_CLOEXEC | O_NONBLOCK) }
            }
            let file = OwnedDescriptor(adopting: descriptor)
            guard try file.status().isRegularFile else { throw .invalid }
            _ = try file.copyContents(to: copy.descriptor, limit: .max)
        } catch {
            throw CommandFailure(
                .failed,
                "'\(place.printable)' cannot be compared: \(error); give the IDs of two versions instead")
        }
        return copy.path
    }

    private func compare(_ files: [[UInt8]]) throws {
        let command: [[UInt8]]
        if let tool {
            // The shell splits the words of the tool; the paths are arguments of their own.
            command = ["sh", "-c", tool + " \"$@\"", "truce"].map { Array($0.utf8) } + files
        } else {
            command = ["diff", "-u", "--"].map { Array($0.utf8) } + files
        }
        var spawner = ProcessSpawner(commandLine: command, environment: OwnProcess.environment(setting: []))
        spawner.inheritDescriptors()
        let code: Int32
        do throws(Errno) {
            code = try OtherProcess.exitCode(of: try spawner.start())
        } catch {
            throw CommandFailure(.failed, "'\(tool ?? "diff")' cannot be run: \(error)")
        }
        // diff(1) and most such tools end with 1 if the files differ.
        guard code <= 1 else { throw CommandFailure(.failed, "'\(tool ?? "diff")' ended with \(code)") }
    }
}

/// A new directory that only the user may enter. It is removed with its files at the end.
private final class TemporaryFolder {
    struct File: ~Copyable {
        let path: [UInt8]
        let descriptor: OwnedDescriptor

        func append(_ bytes: [UInt8]) throws(CommandFailure) {
            do throws(Errno) { try descriptor.writeAll(bytes) } catch {
                throw CommandFailure(.failed, "a temporary file cannot be written: \(error)")
            }
        }
    }

    private let path: [UInt8]
    private var files: [[UInt8]] = []

    init() throws(CommandFailure) {
        let place = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(place)/truce-versions-XXXXXX".utf8) + [0]
        let isMade = template.withUnsafeMutableBytes { bytes in
            bytes.withMemoryRebound(to: CChar.self) { text in
                text.baseAddress.flatMap { mkdtemp($0) } != nil
            }
        }
        guard isMade else {
            throw CommandFailure(
                .failed, "no temporary directory can be made in '\(place.printable)': \(Errno.last)")
        }
        path = Array(template.dropLast())
    }

    func file(_ name: String) throws(CommandFailure) -> File {
        let place = path + [UInt8(ascii: "/")] + Array(name.utf8)
        do throws(Errno) {
            let descriptor = try retryingOnInterrupt {
                place.withPath { open($0, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600) }
            }
            files.append(place)
            return File(path: place, descriptor: OwnedDescriptor(adopting: descriptor))
        } catch {
            throw CommandFailure(.failed, "a temporary file cannot be made: \(error)")
        }
    }

    deinit {
        for file in files { _ = file.withPath { unlink($0) } }
        _ = path.withPath { rmdir($0) }
    }
}
