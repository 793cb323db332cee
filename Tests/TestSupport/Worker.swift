// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Counters that workers increase and tests read meanwhile: 64 rows of 16, in a file outside the mount.
///
/// Row 0 is the test's own; see `Tests/TestWorker` for the other rows.
package final class CounterTable: Sendable {
    package static let rows = 64
    package static let columns = 16
    let path: String
    private let descriptor: Int32

    package init() throws {
        path = try Lab.freshDirectory("board") + "/board"
        descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0, ftruncate(descriptor, off_t(Self.rows * Self.columns * 8)) == 0 else {
            throw TestFailure("\(path): \(describe(errno))")
        }
    }

    deinit { close(descriptor) }

    package subscript(row: Int, column: Int) -> Int {
        get {
            var value: UInt64 = 0
            pread(descriptor, &value, 8, off_t((row * Self.columns + column) * 8))
            return Int(value)
        }
        set {
            var value = UInt64(newValue)
            pwrite(descriptor, &value, 8, off_t((row * Self.columns + column) * 8))
        }
    }

    /// Makes readers count their results from now on.
    package func beginCounting() { self[0, 1] = 1 }
    /// Makes every worker of the board end after its present round.
    package func stop() { self[0, 0] = 1 }
}

/// The counters of a worker, in the order of `Tests/TestWorker/board.h`, which has more details.
package enum Column: Int, CaseIterable, Sendable {
    case ready, rounds, failures, lastError
    /// Writers: rounds with exclusive access, and files that were unlinked meanwhile.
    case wins, gone
    /// Readers: complete, torn and empty files.
    case complete, torn, empty
    /// ENOENT and ESTALE.
    case missing, stale
    /// Opens that returned.
    case opened
}

/// The small program of `Tests/TestWorker`, which repeats one kind of access in a tight loop.
package struct Worker: Sendable {
    package let board: CounterTable
    package let row: Int
    package let program: RunningProgram

    /// Starts the worker. It counts in its own row of the board, 1 or higher.
    package init(_ board: CounterTable, row: Int, _ arguments: String...) throws {
        self.board = board
        self.row = row
        let path = try BuiltProgram.path("TestWorker")
        program = try Command(executable: path, [board.path, String(row)] + arguments).start()
    }

    package subscript(_ column: Column) -> Int { board[row, column.rawValue] }
    package var isReady: Bool { self[.ready] != 0 }
    package var rounds: Int { self[.rounds] }
    package var failures: Int { self[.failures] }
    package var lastError: String { String(cString: strerror(Int32(self[.lastError]))) }

    /// All its counters, for the message of a failed test.
    package var numbers: String {
        "worker \(row): " + Column.allCases.map { "\($0) \(self[$0])" }.joined(separator: ", ")
    }

    package func waitUntilReady(within bound: Duration = .seconds(20)) throws {
        try eventually(within: bound, "worker \(row) to be ready\n\(program.errorText)") {
            if program.hasEnded && !isReady { throw TestFailure("worker \(row) ended: \(program.errorText)") }
            return isReady
        }
    }

    /// Waits for the worker's end after `board.stop()`.
    package func finish(within bound: Duration = .seconds(30)) throws {
        _ = try program.wait(within: bound, for: "the end of worker \(row)").requireSuccess()
    }
}

/// A program of this package that tests run.
package enum BuiltProgram {
    /// Returns the path of a program, which is built beside the test bundle.
    static func path(_ name: String) throws -> String {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        guard count > 0 else { throw TestFailure("/proc/self/exe: \(describe(errno))") }
        let own = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return own.split(separator: "/").dropLast().map { "/" + $0 }.joined() + "/" + name
    }

    package static func start(_ name: String, _ arguments: String...) throws -> RunningProgram {
        try start(name, arguments: arguments, input: .none)
    }

    /// Starts a program with a variable number of arguments.
    package static func start(
        _ name: String, arguments: [String], input: Input
    ) throws -> RunningProgram {
        try Command(executable: try path(name), []).adding(arguments, nil, [:], input).start()
    }
}
