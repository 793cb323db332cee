// SPDX-License-Identifier: Apache-2.0
import CTestSupport
import Glibc

/// An external program, given by its name in the list of installed packages. The name is always a literal, so that a check of
/// the source can find it.
package struct Program: Sendable {
    private let command: Command

    package init(_ name: StaticString) { command = Command(executable: name.description, []) }

    /// Starts the program as a child of the test.
    ///
    /// Claims of the test never wait for claims of its children, because the test is their ancestor. Programs that compete for
    /// a file must therefore be two children of the test.
    package func start(
        _ arguments: String..., at directory: String? = nil, with environment: [String: String] = [:],
        input: Input = .none
    ) throws -> RunningProgram {
        try command.adding(arguments, directory, environment, input).start()
    }

    /// Runs the program to its end; throws an error if the program failed.
    @discardableResult
    package func run(
        _ arguments: String..., at directory: String? = nil, with environment: [String: String] = [:],
        input: Input = .none, within bound: Duration = .seconds(60)
    ) throws -> ProgramResult {
        try command.adding(arguments, directory, environment, input).attempt(within: bound).requireSuccess()
    }

    /// Runs the program to its end, and returns the result even if the program failed.
    package func attempt(
        _ arguments: String..., at directory: String? = nil, with environment: [String: String] = [:],
        input: Input = .none, within bound: Duration = .seconds(60)
    ) throws -> ProgramResult {
        try command.adding(arguments, directory, environment, input).attempt(within: bound)
    }
}

/// A script for bash. The text is always a literal, so that a check of the source can find the programs in it.
///
/// Parts of the script that differ are passed as arguments (`$1`, `$2`), and are not inserted into the text.
package struct Script: Sendable {
    private let command: Command

    /// Creates a script that ends at the first command that fails, even inside a pipe.
    package init(_ text: String) {
        command = Command(executable: "bash", ["-euo", "pipefail", "-c", text, "script"])
    }

    package func start(
        _ arguments: String..., at directory: String? = nil, with environment: [String: String] = [:],
        input: Input = .none
    ) throws -> RunningProgram {
        try command.adding(arguments, directory, environment, input).start()
    }

    @discardableResult
    package func run(
        _ arguments: String..., at directory: String? = nil, with environment: [String: String] = [:],
        input: Input = .none, within bound: Duration = .seconds(60)
    ) throws -> ProgramResult {
        try command.adding(arguments, directory, environment, input).attempt(within: bound).requireSuccess()
    }

    package func attempt(
        _ arguments: String..., at directory: String? = nil, with environment: [String: String] = [:],
        input: Input = .none, within bound: Duration = .seconds(60)
    ) throws -> ProgramResult {
        try command.adding(arguments, directory, environment, input).attempt(within: bound)
    }

    /// Starts the script with an array of arguments.
    package func start(arguments: [String], input: Input = .none) throws -> RunningProgram {
        try command.adding(arguments, nil, [:], input).start()
    }

    /// Runs the script with an array of arguments, and returns the result even if the script failed.
    package func attempt(
        arguments: [String], with environment: [String: String] = [:], within bound: Duration = .seconds(60)
    ) throws -> ProgramResult {
        try command.adding(arguments, nil, environment, .none).attempt(within: bound)
    }
}

/// The standard input that a program gets.
package enum Input: Sendable {
    /// An input that is at its end from the start.
    case none
    case text(String)
    /// A pipe that stays open until `endInput`. The test writes to it with `RunningProgram.type`.
    case keyboard
}

/// The parameters with which a child is started. `Program`, `Script` and the test's own executables use this type.
struct Command: Sendable {
    var executable: String
    var arguments: [String]
    var directory: String?
    var environment: [String: String] = [:]
    var input = Input.none

    init(executable: String, _ arguments: [String]) {
        self.executable = executable
        self.arguments = arguments
    }

    func adding(
        _ arguments: [String], _ directory: String?, _ environment: [String: String], _ input: Input
    ) -> Command {
        var command = self
        command.arguments += arguments
        command.directory = directory
        command.environment = environment
        command.input = input
        return command
    }

    /// A text for messages that says which command this is. The text of a script is shortened.
    var description: String {
        ([executable] + arguments).joined(separator: " ").split(separator: "\n").prefix(3).joined(
            separator: "; ")
    }

    func attempt(within bound: Duration) throws -> ProgramResult {
        try start().wait(within: bound)
    }

    func start() throws -> RunningProgram {
        let output = try CapturedFile()
        let errors = try CapturedFile()
        let (standardInput, keyboard) = try openInput()
        defer { close(standardInput) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, standardInput, 0)
        posix_spawn_file_actions_adddup2(&actions, output.descriptor, 1)
        posix_spawn_file_actions_adddup2(&actions, errors.descriptor, 2)
        // Closes all other descriptors of the child. If the child inherited a descriptor of the mount by accident, the mount
        // could not be removed.
        _ = ctest_spawn_close_from(&actions, 3)
        if let directory { _ = ctest_spawn_at(&actions, directory) }
        let pid = try spawn(&actions)
        return RunningProgram(
            pid: pid, what: description, output: output, errors: errors, keyboard: keyboard)
    }

    private func spawn(_ actions: inout posix_spawn_file_actions_t) throws -> Int32 {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // Every child leads a process group, so that a signal to the group also ends the child's children. The child starts
        // with the default signal actions, like a child of a shell. The actions of this process do not matter.
        var all = sigset_t()
        sigfillset(&all)
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setpgroup(&attributes, 0)
        let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK
        posix_spawnattr_setflags(&attributes, Int16(flags))

        var arguments = ([executable] + arguments).map { strdup($0) as UnsafeMutablePointer<CChar>? } + [nil]
        var variables = Self.variables(environment).map { strdup($0) as UnsafeMutablePointer<CChar>? } + [nil]
        defer { (arguments + variables).forEach { free($0) } }
        var pid: Int32 = 0
        let error = posix_spawnp(&pid, executable, &actions, &attributes, &arguments, &variables)
        guard error == 0 else { throw TestFailure("\(description): cannot be started: \(describe(error))") }
        return pid
    }

    private static func variables(_ changes: [String: String]) -> [String] {
        var kept: [String] = []
        var next = environ
        while let variable = next.pointee {
            let text = String(cString: variable)
            let name = text.prefix { $0 != "=" }
            if changes[String(name)] == nil { kept.append(text) }
            next += 1
        }
        return kept + changes.map { "\($0.key)=\($0.value)" }
    }

    private func openInput() throws -> (descriptor: Int32, keyboard: Int32?) {
        switch input {
        case .none:
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { throw TestFailure("/dev/null: \(describe(errno))") }
            return (descriptor, nil)
        case .text(let text):
            let file = try CapturedFile()
            try file.fill(with: Array(text.utf8))
            return (dup(file.descriptor), nil)
        case .keyboard:
            // If the test writes to a program that has ended, the kernel sends SIGPIPE. Without this line, SIGPIPE would end
            // the test.
            signal(SIGPIPE, SIG_IGN)
            var ends: [Int32] = [-1, -1]
            guard pipe(&ends) == 0 else { throw TestFailure("pipe: \(describe(errno))") }
            _ = fcntl(ends[0], F_SETFD, FD_CLOEXEC)
            _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
            return (ends[0], ends[1])
        }
    }
}
