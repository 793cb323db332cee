// SPDX-License-Identifier: Apache-2.0
package import TestSupport

/// One process of a scene: a `Participant`, which executes commands and prints its events.
///
/// Every line about an access or presenter is checked, so that an extra message fails the scene like a missing one.
package final class ScenarioParticipant {
    /// The limit is large: an expected event comes at once, or after a time limit of a few seconds.
    package static let patience = Duration.seconds(20)

    package let name: String
    package let program: RunningProgram
    private let situation: () -> String
    /// Number of checked lines of each access or presenter.
    private var readLines: [String: Int] = [:]

    init(_ name: String, _ program: RunningProgram, situation: @escaping () -> String) {
        self.name = name
        self.program = program
        self.situation = situation
    }

    package var pid: Int32 { program.pid }
    /// The name of this process in messages.
    package var shown: String { "Participant (\(pid))" }

    package func say(_ line: String) throws { try program.type(line + "\n") }

    /// Lines about an access or presenter that were not checked yet.
    package func unread(_ subject: String) -> [String] {
        Array(lines(of: subject).dropFirst(readLines[subject] ?? 0))
    }

    private func lines(of subject: String) -> [String] {
        program.text.split(separator: "\n").filter { $0.hasPrefix(subject + " ") }.map {
            String($0.dropFirst(subject.count + 1))
        }
    }

    /// Returns the next line about an access or presenter.
    package func next(_ subject: String, within bound: Duration = patience) throws -> String {
        let index = readLines[subject] ?? 0
        var found = ""
        try eventually(
            within: bound, "\(name) to say more of '\(subject)'; \(said)\n\(situation())"
        ) {
            let lines = lines(of: subject)
            if lines.count <= index, program.hasEnded { throw TestFailure("\(name) has ended: \(said)") }
            guard lines.count > index else { return false }
            found = lines[index]
            return true
        }
        readLines[subject] = index + 1
        return found
    }

    /// Waits for exactly these lines, in this order.
    package func expect(_ subject: String, _ lines: String..., within bound: Duration = patience) throws {
        for line in lines {
            let found = try next(subject, within: bound)
            guard found == line else {
                throw TestFailure(
                    "\(name) said '\(subject) \(found)' and not '\(line)'; \(said)\n\(situation())")
            }
        }
    }

    /// Waits for this line, and skips the lines before it.
    package func skip(_ subject: String, to line: String) throws {
        while try next(subject) != line {}
    }

    /// Returns all lines until the presenter, which was asked to settle, is settled.
    package func upToSettled(_ presenter: String) throws -> [String] {
        try eventually(within: Self.patience, "\(presenter) to be settled") {
            lines(of: presenter).last == "settled"
        }
        defer { readLines[presenter] = lines(of: presenter).count }
        return unread(presenter).dropLast()
    }

    private var said: String { "it said:\n\(program.text.suffix(3000))\(program.errorText.suffix(1000))" }
}

// Accesses.
extension ScenarioParticipant {
    /// Begins an access, such as `read a` or `read a,withoutChanges write b`. Without a named coordinator it uses one
    /// of its own.
    package func begin(_ access: String, _ wanted: String, by coordinator: String? = nil) throws {
        try say("begin \(access) \(coordinator ?? "by-\(access)") \(wanted)")
    }

    /// Begins an access, and waits until its accessor runs.
    ///
    /// - Returns: The names that the accessor received.
    @discardableResult
    package func hold(_ access: String, _ wanted: String, by coordinator: String? = nil) throws -> String {
        try begin(access, wanted, by: coordinator)
        return try began(access)
    }

    @discardableResult
    package func began(_ access: String) throws -> String {
        let line = try next(access)
        guard line.hasPrefix("began") else {
            throw TestFailure("\(name) said '\(access) \(line)' and not that it began\n\(situation())")
        }
        return String(line.dropFirst("began ".count))
    }

    package func end(_ access: String) throws {
        try say("end \(access)")
        try expect(access, "ended")
    }

    /// Makes the accessor execute an order, and returns the result.
    @discardableResult
    package func act(_ access: String, _ order: String) throws -> String {
        try say("do \(access) \(order)")
        let line = try next(access)
        guard line.hasPrefix("did") else {
            throw TestFailure("\(name) said '\(access) \(line)' to '\(order)'")
        }
        return String(line.dropFirst("did ".count))
    }

    /// Runs an access from begin to end, with at most one order in between.
    package func once(_ access: String, _ wanted: String, _ order: String? = nil) throws {
        try hold(access, wanted)
        if let order { try act(access, order) }
        try end(access)
    }

    /// Moves an item and announces it, within a coordinated move that has begun.
    package func move(_ access: String, _ source: String, to destination: String) throws {
        try act(access, "move \(source) \(destination)")
        try act(access, "announce \(source) \(destination)")
        try end(access)
    }

    /// Returns the reason of an access's failure, and its time in milliseconds.
    package func failure(_ access: String) throws -> (reason: String, took: Int) {
        let line = try next(access)
        let parts = line.split(separator: " ", maxSplits: 4).map(String.init)
        guard parts.count == 5, parts[0] == "failed", let took = Int(parts[2]) else {
            throw TestFailure("\(name) said '\(access) \(line)' and not that it failed")
        }
        return (String(parts[4]), took)
    }

    /// Begins an access on an occupied queue, and waits until its accessor waits there.
    package func queue(_ access: String, _ wanted: String) throws {
        try say("occupy \(access)")
        try say("intents \(access) by-\(access) \(wanted)")
        try eventually(within: Self.patience, "the accessor of '\(access)' to be on its queue") {
            try say("queued \(access)")
            return try next(access) == "queued 1"
        }
    }

    /// Registers a presenter of a file, which implements everything by default, and waits for its registration.
    package func present(_ presenter: String, _ path: String, _ kind: String = "everything") throws {
        try say("present \(presenter) \(path) \(kind)")
        try expect(presenter, "presents")
    }

    /// Adds a presenter by the call that reports no failure, and waits for the call's end.
    package func add(_ presenter: String, _ path: String) throws {
        try say("add \(presenter) \(path)")
        try expect(presenter, "added")
    }
}
