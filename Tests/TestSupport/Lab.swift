// SPDX-License-Identifier: Apache-2.0
import Glibc
import Synchronization

/// The directory and programs of mounted tests, read from environment variables that `Scripts/test` sets.
package enum Lab {
    package enum DataPath: String, Sendable { case passthrough, daemon }

    /// Returns an environment variable. If it is missing the test fails and is not skipped, because a skipped test proves
    /// nothing.
    package static func variable(_ name: String) throws -> String {
        guard let value = getenv(name) else {
            throw TestFailure("\(name) is not set: mounted tests are started by Scripts/test")
        }
        return String(cString: value)
    }

    /// Returns a number for a test: `number` in an ordinary run, and a larger number in a run of `Scripts/test --all`.
    package static func number(_ name: String, default number: Int) throws -> Int {
        guard getenv(name) != nil else { return number }
        let text = try variable(name)
        guard let number = Int(text), number > 0 else { throw TestFailure("\(name) cannot be '\(text)'") }
        return number
    }

    /// Whether the tests run in their long forms, as `Scripts/test --all` runs them.
    package static var isLong: Bool { getenv("TRUCE_WORLDS") != nil }

    package static var directory: String { get throws { try variable("TRUCE_LAB") } }
    package static var dataPath: DataPath {
        get throws {
            let name = try variable("TRUCE_DATA")
            guard let mode = DataPath(rawValue: name) else {
                throw TestFailure("TRUCE_DATA cannot be '\(name)'")
            }
            return mode
        }
    }

    /// Whether the kernel reads and writes the source's files in this run. Tests that do not depend on the data path run only
    /// if this is true, to save time.
    package static var isPassthrough: Bool { (try? dataPath) == .passthrough }

    private static let number = Atomic<Int>(0)

    /// Starts a new POSIX session for the tests and the programs that they start.
    ///
    /// Without this, the session is that of the test runner, which can have no number in this PID namespace.
    private static let session: Void = {
        if getsid(0) == 0, setsid() < 0 { fatalError("no session of our own: \(describe(errno))") }
    }()

    /// Creates a directory in the lab. All users may enter the directory, because tests also run programs as other users.
    package static func freshDirectory(_ name: String, in parent: String? = nil) throws -> String {
        _ = session
        let number = Self.number.add(1, ordering: .relaxed).newValue
        let path = "\(try parent ?? directory)/\(name)-\(getpid())-\(number)"
        guard mkdir(path, 0o755) == 0 else { throw TestFailure("\(path): \(describe(errno))") }
        return path
    }
}

/// The command `truce` that is tested.
package enum TruceCommand {
    package static func start(
        _ arguments: String..., with environment: [String: String] = [:], input: Input = .none
    ) throws -> RunningProgram {
        try command(arguments, environment, input).start()
    }

    @discardableResult
    package static func run(
        _ arguments: String..., with environment: [String: String] = [:],
        within bound: Duration = .seconds(60)
    ) throws -> ProgramResult {
        try command(arguments, environment).attempt(within: bound).requireSuccess()
    }

    package static func runWords(_ arguments: [String]) throws -> ProgramResult {
        try command(arguments, [:]).attempt(within: .seconds(60)).requireSuccess()
    }

    package static func attempt(
        _ arguments: String..., with environment: [String: String] = [:],
        within bound: Duration = .seconds(60)
    ) throws -> ProgramResult {
        try command(arguments, environment).attempt(within: bound)
    }

    static func runAll(_ arguments: [String], with environment: [String: String]) throws {
        _ = try command(arguments, environment).attempt(within: .seconds(60)).requireSuccess()
    }

    private static func command(
        _ arguments: [String], _ environment: [String: String], _ input: Input = .none
    ) throws -> Command {
        Command(executable: try Lab.variable("TRUCE_BINARY"), []).adding(arguments, nil, environment, input)
    }
}
