// SPDX-License-Identifier: Apache-2.0
import Glibc
import Synchronization
import TestSupport

/// Files of the checkout that these tests were built from.
enum Checkout {
    static func path(_ name: String, from file: String = #filePath) -> String {
        // A file below Tests, in any folder.
        let parts = file.split(separator: "/")
        let root = parts.prefix(parts.lastIndex(of: "Tests") ?? 0).map { "/" + $0 }.joined()
        return root + "/" + name
    }
}

/// A process that makes the system calls that it is told, and prints their results. It runs `Tests/Workers/actor`, or another
/// worker that answers each order by one line.
///
/// Actors are siblings, so that no claim of one is open to another.
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

    /// Its answers, one line for each order.
    var answers: [String] {
        let lines = program.text.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.dropFirst().dropLast().map { String($0) }
    }

    /// Sends an order without waiting for the answer.
    func tell(_ words: String...) throws { try tell(words) }

    func tell(_ words: [String]) throws {
        told.withLock { $0 += 1 }
        try program.type(words.joined(separator: "\t") + "\n")
    }

    /// Whether it has answered every order.
    var isDone: Bool { answers.count == told.withLock { $0 } }

    /// The answer to the last order.
    func answer(within bound: Duration = .seconds(20)) throws -> String {
        try eventually(within: bound, "the answer of actor \(pid) to its order \(told.withLock { $0 })") {
            if program.hasEnded { throw TestFailure("actor \(pid) ended\n\(program.errorText.suffix(1000))") }
            return isDone
        }
        return answers.last ?? ""
    }

    /// Sends an order and returns its result.
    func ask(_ words: String..., within bound: Duration = .seconds(20)) throws -> String {
        try ask(words, within: bound)
    }

    func ask(_ words: [String], within bound: Duration = .seconds(20)) throws -> String {
        try tell(words)
        return try answer(within: bound)
    }

    /// Sends an order that must succeed, and returns its result.
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
    /// Waits until a program's request is parked.
    func waitUntilParked(_ pid: pid_t, within bound: Duration = .seconds(10)) throws {
        try eventually(within: bound, "process \(pid) to wait in \(path)") {
            try status().waiting.contains { $0.actor.pid == pid }
        }
    }
}
