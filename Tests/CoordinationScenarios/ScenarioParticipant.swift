// SPDX-License-Identifier: Apache-2.0
package import TestSupport

/// One of the processes of a scene: a `Participant`, which does what it is told and says what happens to it.
///
/// What it says of one access or presenter is looked at line by line, none left out: a message too many is found as
/// surely as one that is missing.
package final class ScenarioParticipant {
    /// Generous: what a scene expects comes at once, or after a bound of a few seconds.
    package static let patience = Duration.seconds(20)

    package let name: String
    package let program: RunningProgram
    private let situation: () -> String
    /// How many lines of each access or presenter were looked at.
    private var readLines: [String: Int] = [:]

    init(_ name: String, _ program: RunningProgram, situation: @escaping () -> String) {
        self.name = name
        self.program = program
        self.situation = situation
    }

    package var pid: Int32 { program.pid }
    /// As sentences about it call it.
    package var shown: String { "Participant (\(pid))" }

    package func say(_ line: String) throws { try program.type(line + "\n") }

    /// What was said of an access or a presenter and not looked at yet.
    package func unread(_ subject: String) -> [String] {
        Array(lines(of: subject).dropFirst(readLines[subject] ?? 0))
    }

    private func lines(of subject: String) -> [String] {
        program.text.split(separator: "\n").filter { $0.hasPrefix(subject + " ") }.map {
            String($0.dropFirst(subject.count + 1))
        }
    }

    /// The next thing that is said of it.
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

    /// Waits until exactly this was said of it, one line after the other.
    package func expect(_ subject: String, _ lines: String..., within bound: Duration = patience) throws {
        for line in lines {
            let found = try next(subject, within: bound)
            guard found == line else {
                throw TestFailure(
                    "\(name) said '\(subject) \(found)' and not '\(line)'; \(said)\n\(situation())")
            }
        }
    }

    /// Waits until this was said of it, whatever came before.
    package func skip(_ subject: String, to line: String) throws {
        while try next(subject) != line {}
    }

    /// Everything that it says until its presenter is settled, which it was asked to be.
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
    /// Asks for one, `read a` or `read a,withoutChanges write b`, by a coordinator that nobody else uses, if no other
    /// is named.
    package func begin(_ access: String, _ wanted: String, by coordinator: String? = nil) throws {
        try say("begin \(access) \(coordinator ?? "by-\(access)") \(wanted)")
    }

    /// The same, and waits until its accessor runs.
    ///
    /// - Returns: the names that the accessor was given.
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

    /// Has the accessor do something, and returns what came of it.
    @discardableResult
    package func act(_ access: String, _ order: String) throws -> String {
        try say("do \(access) \(order)")
        let line = try next(access)
        guard line.hasPrefix("did") else {
            throw TestFailure("\(name) said '\(access) \(line)' to '\(order)'")
        }
        return String(line.dropFirst("did ".count))
    }

    /// From the beginning to the end, with one thing done meanwhile.
    package func once(_ access: String, _ wanted: String, _ order: String? = nil) throws {
        try hold(access, wanted)
        if let order { try act(access, order) }
        try end(access)
    }

    /// Moves something and says so, within a coordinated move that has begun.
    package func move(_ access: String, _ source: String, to destination: String) throws {
        try act(access, "move \(source) \(destination)")
        try act(access, "announce \(source) \(destination)")
        try end(access)
    }

    /// Why an access came to nothing, and after how many milliseconds.
    package func failure(_ access: String) throws -> (reason: String, took: Int) {
        let line = try next(access)
        let parts = line.split(separator: " ", maxSplits: 4).map(String.init)
        guard parts.count == 5, parts[0] == "failed", let took = Int(parts[2]) else {
            throw TestFailure("\(name) said '\(access) \(line)' and not that it failed")
        }
        return (String(parts[4]), took)
    }

    /// Asks for an access whose accessor is to run on a queue that is occupied, and waits until it would run there.
    package func queue(_ access: String, _ wanted: String) throws {
        try say("occupy \(access)")
        try say("intents \(access) by-\(access) \(wanted)")
        try eventually(within: Self.patience, "the accessor of '\(access)' to be on its queue") {
            try say("queued \(access)")
            return try next(access) == "queued 1"
        }
    }

    /// A presenter of a file, which implements everything if nothing else is said, and says so when it is registered.
    package func present(_ presenter: String, _ path: String, _ kind: String = "everything") throws {
        try say("present \(presenter) \(path) \(kind)")
        try expect(presenter, "presents")
    }

    /// The same as programs do it that do not want to know whether it worked; it says so when that is decided.
    package func add(_ presenter: String, _ path: String) throws {
        try say("add \(presenter) \(path)")
        try expect(presenter, "added")
    }
}
