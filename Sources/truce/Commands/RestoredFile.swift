// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// A new file that gets its final name only when its contents are complete.
struct RestoredFile: ~Copyable {
    private let target: [UInt8]
    /// The path for system calls.
    private let place: [UInt8]
    private let temporary: [UInt8]
    private let isReplacing: Bool
    private let file: OwnedDescriptor
    private var isFinished = false

    /// `target` is the path of the file, as messages name it. System calls use `path`, another path to the same place, if it is
    /// given.
    init(at target: [UInt8], by path: [UInt8]? = nil, replacing: Bool) throws(CommandFailure) {
        self.target = target
        let place = path ?? target
        self.place = place
        isReplacing = replacing
        // The temporary file is made in the target's directory, so that both are on the same file system and a rename
        // is possible.
        let slash = place.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? 0
        temporary = Array(place[..<slash]) + Array(".truce-restored-\(getpid())".utf8)
        guard replacing || place.withPath({ access($0, F_OK) }) != 0 else {
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
            place.withPath { to in
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
