// SPDX-License-Identifier: Apache-2.0
import Glibc
import Synchronization
import TestSupport

/// Paths of files in the checkout from which these tests were built.
enum Checkout {
    static func path(_ name: String, from file: String = #filePath) -> String {
        // This source file may be in any folder below Tests.
        let parts = file.split(separator: "/")
        let root = parts.prefix(parts.lastIndex(of: "Tests") ?? 0).map { "/" + $0 }.joined()
        return root + "/" + name
    }
}

/// A process that makes system calls on command, and prints their results. The process runs `Tests/Workers/actor`, or another
/// worker that answers each command by one line.
///
/// Scripted processes are siblings, so that the daemon treats none of them as a relative of another.
final class ScriptedProcess: Sendable {
    let program: RunningProgram
    private let told = Mutex(0)

    convenience init() throws {
        try self.init(Program("python3").start(Checkout.path("Tests/Workers/actor"), input: .keyboard))
    }

    init(_ program: RunningProgram) throws {
        self.program = program
        try eventually(within: .seconds(20), "an actor to be ready\n\(program.errorText)") {
            program.text.hasPrefix("ready\n")
        }
    }

    var pid: pid_t { program.pid }

    /// The answers of the process, one line for each command.
    var answers: [String] {
        let lines = program.text.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.dropFirst().dropLast().map { String($0) }
    }

    /// Sends a command and does not wait for the answer.
    func tell(_ words: String...) throws { try tell(words) }

    func tell(_ words: [String]) throws {
        told.withLock { $0 += 1 }
        try program.type(words.joined(separator: "\t") + "\n")
    }

    /// True if the process has answered every command.
    var isDone: Bool { answers.count == told.withLock { $0 } }

    /// Waits for the answer to the last command and returns it.
    func answer(within bound: Duration = .seconds(20)) throws -> String {
        try eventually(within: bound, "the answer of actor \(pid) to its order \(told.withLock { $0 })") {
            if program.hasEnded { throw TestFailure("actor \(pid) ended\n\(program.errorText.suffix(1000))") }
            return isDone
        }
        return answers.last ?? ""
    }

    /// Sends a command and returns its result.
    func ask(_ words: String..., within bound: Duration = .seconds(20)) throws -> String {
        try ask(words, within: bound)
    }

    func ask(_ words: [String], within bound: Duration = .seconds(20)) throws -> String {
        try tell(words)
        return try answer(within: bound)
    }

    /// Sends a command that must succeed, and returns its result.
    @discardableResult
    func must(_ words: String..., within bound: Duration = .seconds(20)) throws -> String {
        try tell(words)
        let answer = try answer(within: bound)
        guard answer == "ok" || answer.hasPrefix("ok ") else {
            throw TestFailure("actor \(pid): \(words.joined(separator: " ")): \(answer)")
        }
        return String(answer.dropFirst(3))
    }
}

extension MountedDirectory {
    /// Waits until a request of the process waits in the daemon.
    func waitUntilParked(_ pid: pid_t, within bound: Duration = .seconds(10)) throws {
        try eventually(within: bound, "process \(pid) to wait in \(path)") {
            try status().waiting.contains { $0.actor.pid == pid }
        }
    }
}
