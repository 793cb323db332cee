// SPDX-License-Identifier: Apache-2.0
import Glibc
import Synchronization

/// Where mounted tests work and what they run; `Scripts/test` says so by the environment.
package enum Lab {
    package enum DataPath: String, Sendable { case passthrough, daemon }

    /// A missing variable fails the test: a mounted test that was not run has shown nothing.
    package static func variable(_ name: String) throws -> String {
        guard let value = getenv(name) else {
            throw TestFailure("\(name) is not set: mounted tests are started by Scripts/test")
        }
        return String(cString: value)
    }

    /// A number that `Scripts/test --all` makes larger.
    package static func number(_ name: String, default number: Int) throws -> Int {
        guard getenv(name) != nil else { return number }
        let text = try variable(name)
        guard let number = Int(text), number > 0 else { throw TestFailure("\(name) cannot be '\(text)'") }
        return number
    }

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

    /// What does not depend on the way that data goes is tested in one of the data modes, for the time that it takes.
    package static var isPassthrough: Bool { (try? dataPath) == .passthrough }

    private static let number = Atomic<Int>(0)

    /// Tests and their programs are one session, as a user's are. A machine may have started us in one that cannot be seen.
    private static let session: Void = {
        if getsid(0) == 0, setsid() < 0 { fatalError("no session of our own: \(describe(errno))") }
    }()

    /// A new directory in the lab. Everybody may walk through it, since tests act as other users, too.
    package static func freshDirectory(_ name: String, in parent: String? = nil) throws -> String {
        _ = session
        let number = Self.number.add(1, ordering: .relaxed).newValue
        let path = "\(try parent ?? directory)/\(name)-\(getpid())-\(number)"
        guard mkdir(path, 0o755) == 0 else { throw TestFailure("\(path): \(describe(errno))") }
        return path
    }
}

/// The command `truce` under test.
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
