// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Counters in a file outside the mount: 64 rows of 16 numbers. Workers increase the counters, and tests read them at the same
/// time.
///
/// The test itself uses row 0. The other rows belong to workers, and `Tests/TestWorker` describes their columns.
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

    /// Makes all readers begin to count their results.
    package func beginCounting() { self[0, 1] = 1 }
    /// Makes every worker of the table end when its current round is over.
    package func stop() { self[0, 0] = 1 }
}

/// The columns of a worker's row, in the order of `Tests/TestWorker/board.h`, which describes them in more detail.
package enum Column: Int, CaseIterable, Sendable {
    case ready, rounds, failures, lastError
    /// For writers: how many rounds had exclusive access, and in how many rounds the file lost its name.
    case wins, gone
    /// For readers: reads of complete, torn and empty files.
    case complete, torn, empty
    /// Steps that failed with ENOENT and with ESTALE.
    case missing, stale
    /// Opens of a file that have returned.
    case opened
}

/// The program in `Tests/TestWorker`, which repeats one kind of access as fast as it can.
package struct Worker: Sendable {
    package let board: CounterTable
    package let row: Int
    package let program: RunningProgram

    /// Starts the worker. `row` is the row of the table in which the worker counts. It is at least 1, because row 0 belongs to
    /// the test.
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

    /// All counters of the worker, as text for the message of a failed test.
    package var numbers: String {
        "worker \(row): " + Column.allCases.map { "\($0) \(self[$0])" }.joined(separator: ", ")
    }

    package func waitUntilReady(within bound: Duration = .seconds(20)) throws {
        try eventually(within: bound, "worker \(row) to be ready\n\(program.errorText)") {
            if program.hasEnded && !isReady { throw TestFailure("worker \(row) ended: \(program.errorText)") }
            return isReady
        }
    }

    /// Waits until the worker ends. The caller must call `stop()` of the table before.
    package func finish(within bound: Duration = .seconds(30)) throws {
        _ = try program.wait(within: bound, for: "the end of worker \(row)").requireSuccess()
    }
}

/// A program of this package that tests start.
package enum BuiltProgram {
    /// Returns the path of the program. The build puts the program into the directory of the test bundle.
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

    /// Starts the program with an array of arguments.
    package static func start(
        _ name: String, arguments: [String], with environment: [String: String] = [:], input: Input
    ) throws -> RunningProgram {
        try Command(executable: try path(name), []).adding(arguments, nil, environment, input).start()
    }
}
