// SPDX-License-Identifier: Apache-2.0
import Glibc
import Synchronization
import TestSupport

/// Files of the checkout these tests were built from.
enum Checkout {
    static func path(_ name: String, from file: String = #filePath) -> String {
        // A file below Tests, in whatever folder.
        let parts = file.split(separator: "/")
        let root = parts.prefix(parts.lastIndex(of: "Tests") ?? 0).map { "/" + $0 }.joined()
        return root + "/" + name
    }
}

/// A process of its own that makes the system calls it is told, and says how they went: `Tests/Workers/actor`, or another
/// worker that is told by lines and answers each by one.
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

    /// What it has answered, one line for each order.
    var answers: [String] {
        let lines = program.text.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.dropFirst().dropLast().map { String($0) }
    }

    /// Tells it to do something, without waiting for the answer.
    func tell(_ words: String...) throws { try tell(words) }

    func tell(_ words: [String]) throws {
        told.withLock { $0 += 1 }
        try program.type(words.joined(separator: "\t") + "\n")
    }

    /// Whether everything it was told is done.
    var isDone: Bool { answers.count == told.withLock { $0 } }

    /// The answer to the last order.
    func answer(within bound: Duration = .seconds(20)) throws -> String {
        try eventually(within: bound, "the answer of actor \(pid) to its order \(told.withLock { $0 })") {
            if program.hasEnded { throw TestFailure("actor \(pid) ended\n\(program.errorText.suffix(1000))") }
            return isDone
        }
        return answers.last ?? ""
    }

    /// Tells it to do something and returns how that went.
    func ask(_ words: String..., within bound: Duration = .seconds(20)) throws -> String {
        try ask(words, within: bound)
    }

    func ask(_ words: [String], within bound: Duration = .seconds(20)) throws -> String {
        try tell(words)
        return try answer(within: bound)
    }

    /// Tells it to do something that has to work, and returns what came of it.
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
