// SPDX-License-Identifier: Apache-2.0
import CTestSupport
import Glibc

/// An external program, by its name in the install list; always a literal, so that a check can read it.
package struct Program: Sendable {
    private let command: Command

    package init(_ name: StaticString) { command = Command(executable: name.description, []) }

    /// Starts the program as a child of the test.
    ///
    /// Children of one test are siblings. Claims of the test, their ancestor, do not block them, nor do theirs block
    /// the test. So programs that compete for a file have to be children.
    package func start(
        _ arguments: String..., at directory: String? = nil, with environment: [String: String] = [:],
        input: Input = .none
    ) throws -> RunningProgram {
        try command.adding(arguments, directory, environment, input).start()
    }

    /// Runs the program to its end and throws unless it succeeded.
    @discardableResult
    package func run(
        _ arguments: String..., at directory: String? = nil, with environment: [String: String] = [:],
        input: Input = .none, within bound: Duration = .seconds(60)
    ) throws -> ProgramResult {
        try command.adding(arguments, directory, environment, input).attempt(within: bound).requireSuccess()
    }

    /// Runs the program to its end, and returns the result also after a failure.
    package func attempt(
        _ arguments: String..., at directory: String? = nil, with environment: [String: String] = [:],
        input: Input = .none, within bound: Duration = .seconds(60)
    ) throws -> ProgramResult {
        try command.adding(arguments, directory, environment, input).attempt(within: bound)
    }
}

/// Text for bash; always a literal, so that a check can read its programs. Pass variable parts as arguments (`$1`,
/// `$2`) instead of interpolating them.
package struct Script: Sendable {
    private let command: Command

    /// Makes a script that ends at the first failure, also inside a pipe.
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

    /// Accepts a variable number of arguments.
    package func start(arguments: [String], input: Input = .none) throws -> RunningProgram {
        try command.adding(arguments, nil, [:], input).start()
    }

    /// Accepts a variable number of arguments.
    package func attempt(
        arguments: [String], with environment: [String: String] = [:], within bound: Duration = .seconds(60)
    ) throws -> ProgramResult {
        try command.adding(arguments, nil, environment, .none).attempt(within: bound)
    }
}

/// The standard input of a program.
package enum Input: Sendable {
    /// The end of the file.
    case none
    case text(String)
    /// A pipe that `RunningProgram.type` writes to, open until `endInput`.
    case keyboard
}

/// The parameters to start a child; the base of `Program`, `Script` and the test's own executables.
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

    /// A description for messages; the text of a script is shortened.
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
        // A child that inherited a descriptor of the mount by accident would keep it busy.
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
        // Every child leads a process group, so that its own children can be ended with it. It starts with the default
        // signals of a shell's child, regardless of this process's signals.
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
            // A program that ends while the test writes to it must not end the test.
            signal(SIGPIPE, SIG_IGN)
            var ends: [Int32] = [-1, -1]
            guard pipe(&ends) == 0 else { throw TestFailure("pipe: \(describe(errno))") }
            _ = fcntl(ends[0], F_SETFD, FD_CLOEXEC)
            _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
            return (ends[0], ends[1])
        }
    }
}
