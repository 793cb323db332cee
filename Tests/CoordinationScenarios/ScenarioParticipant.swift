// SPDX-License-Identifier: Apache-2.0
package import TestSupport

/// A process in a scene. It runs the program `Participant`, which executes commands and prints its events.
///
/// A scene must check every line that the process prints about an access or a presenter. So a scene fails both if a message is
/// missing and if there is one too many.
package final class ScenarioParticipant {
    /// The time limit for an expected line. Some lines come only after a time limit of a few seconds, so this limit is longer.
    package static let patience = Duration.seconds(20)

    package let name: String
    package let program: RunningProgram
    private let situation: () -> String
    /// For each access or presenter, how many of its lines the scene has checked.
    private var readLines: [String: Int] = [:]

    init(_ name: String, _ program: RunningProgram, situation: @escaping () -> String) {
        self.name = name
        self.program = program
        self.situation = situation
    }

    package var pid: Int32 { program.pid }
    /// The name that messages use for this process.
    package var shown: String { "Participant (\(pid))" }

    package func say(_ line: String) throws { try program.type(line + "\n") }

    /// Returns the lines about an access or presenter that were not checked yet.
    package func unread(_ subject: String) -> [String] {
        Array(lines(of: subject).dropFirst(readLines[subject] ?? 0))
    }

    private func lines(of subject: String) -> [String] {
        program.text.split(separator: "\n").filter { $0.hasPrefix(subject + " ") }.map {
            String($0.dropFirst(subject.count + 1))
        }
    }

    /// Waits for the next line about an access or presenter, and returns it.
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

    /// Waits until the next lines about an access or presenter are exactly these lines, in this order.
    package func expect(_ subject: String, _ lines: String..., within bound: Duration = patience) throws {
        for line in lines {
            let found = try next(subject, within: bound)
            guard found == line else {
                throw TestFailure(
                    "\(name) said '\(subject) \(found)' and not '\(line)'; \(said)\n\(situation())")
            }
        }
    }

    /// Waits for a line about an access or presenter, and skips the lines before it.
    package func skip(_ subject: String, to line: String) throws {
        while try next(subject) != line {}
    }

    /// Waits until a presenter has carried out the command `settle`, and returns all lines before its answer.
    package func upToSettled(_ presenter: String) throws -> [String] {
        try eventually(within: Self.patience, "\(presenter) to be settled") {
            lines(of: presenter).last == "settled"
        }
        defer { readLines[presenter] = lines(of: presenter).count }
        return unread(presenter).dropLast()
    }

    private var said: String { "it said:\n\(program.text.suffix(3000))\(program.errorText.suffix(1000))" }
}

// Commands for accesses.
extension ScenarioParticipant {
    /// Begins an access, such as `read a` or `read a,withoutChanges write b`.
    ///
    /// If no coordinator is named, the access uses a new coordinator.
    package func begin(_ access: String, _ wanted: String, by coordinator: String? = nil) throws {
        try say("begin \(access) \(coordinator ?? "by-\(access)") \(wanted)")
    }

    /// Begins an access, and waits until the access's accessor runs.
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

    /// Makes the running accessor of an access execute an order, and returns the result of the order.
    @discardableResult
    package func act(_ access: String, _ order: String) throws -> String {
        try say("do \(access) \(order)")
        let line = try next(access)
        guard line.hasPrefix("did") else {
            throw TestFailure("\(name) said '\(access) \(line)' to '\(order)'")
        }
        return String(line.dropFirst("did ".count))
    }

    /// Begins an access, gives its accessor at most one order, and ends the access.
    package func once(_ access: String, _ wanted: String, _ order: String? = nil) throws {
        try hold(access, wanted)
        if let order { try act(access, order) }
        try end(access)
    }

    /// In an access that has begun, moves an item and announces the move to the library. Then ends the access.
    package func move(_ access: String, _ source: String, to destination: String) throws {
        try act(access, "move \(source) \(destination)")
        try act(access, "announce \(source) \(destination)")
        try end(access)
    }

    /// Returns the reason why an access failed, and the milliseconds from its begin to the failure.
    package func failure(_ access: String) throws -> (reason: String, took: Int) {
        let line = try next(access)
        let parts = line.split(separator: " ", maxSplits: 4).map(String.init)
        guard parts.count == 5, parts[0] == "failed", let took = Int(parts[2]) else {
            throw TestFailure("\(name) said '\(access) \(line)' and not that it failed")
        }
        return (String(parts[4]), took)
    }

    /// Begins an access with a blocked queue, and waits until the access's accessor waits in this queue.
    package func queue(_ access: String, _ wanted: String) throws {
        try say("occupy \(access)")
        try say("intents \(access) by-\(access) \(wanted)")
        try eventually(within: Self.patience, "the accessor of '\(access)' to be on its queue") {
            try say("queued \(access)")
            return try next(access) == "queued 1"
        }
    }

    /// Registers a presenter of a file, and waits for the registration. By default the presenter implements all messages.
    package func present(_ presenter: String, _ path: String, _ kind: String = "everything") throws {
        try say("present \(presenter) \(path) \(kind)")
        try expect(presenter, "presents")
    }

    /// Adds a presenter by `addFilePresenter`, which reports no failure, and waits until the call has returned.
    package func add(_ presenter: String, _ path: String) throws {
        try say("add \(presenter) \(path)")
        try expect(presenter, "added")
    }

    /// Sets how a presenter reacts to a message from now on, and waits until the reaction is set.
    ///
    /// Without the wait, a program of the scene could cause the message before the presenter has the reaction.
    package func react(_ presenter: String, to message: String, by reaction: String = "") throws {
        try say("on \(presenter) \(message) \(reaction)")
        try expect("reaction", "set")
    }
}
