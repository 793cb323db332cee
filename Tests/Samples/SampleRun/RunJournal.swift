// SPDX-License-Identifier: Apache-2.0
public import Foundation

/// The events of a run. The participants record events, and the run expects events in a fixed order and prints each expected
/// event.
///
/// Messages arrive on several threads, and some messages arrive more than once. The journal prints only expected events, so
/// every run prints the same lines.
public final class RunJournal: @unchecked Sendable {
    // @unchecked: the two variables are accessed only while `condition` is held.
    private let condition = NSCondition()
    private var events: [String] = []
    private var lastLine = "the start"

    public init() {}

    public func say(_ line: String) {
        condition.withLock { lastLine = line }
        // The line is written without a buffer. If the run hangs and is killed, lines in a buffer of `print` would be lost.
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }

    public func note(_ event: String) {
        condition.withLock {
            events.append(event)
            condition.broadcast()
        }
    }

    /// Waits for an event, prints the event, and removes it from the journal. If an event must happen twice, the run must call
    /// this method twice.
    public func expect(_ event: String, within seconds: Double = 30) throws {
        let limit = Date(timeIntervalSinceNow: seconds)
        try condition.withLock {
            while true {
                if let index = events.firstIndex(of: event) {
                    events.remove(at: index)
                    return
                }
                if !condition.wait(until: limit), !events.contains(event) {
                    throw TimeoutError(what: event, seconds: seconds, meanwhile: events)
                }
            }
        }
        say("  \(event)")
    }

    /// Throws an error if an unwanted event has happened.
    public func refute(_ event: String) throws {
        if condition.withLock({ events.contains(event) }) { throw UnexpectedEvent(what: event) }
    }

    /// Runs a blocking body on a separate thread, and throws an error if the body takes too long.
    public func finish<Value: Sendable>(
        _ what: String, within seconds: Double = 30, _ body: @escaping @Sendable () throws -> Value
    ) throws -> Value {
        let eventual = EventualResult<Value>(what)
        DispatchQueue.global().async { eventual.settle(Result { try body() }) }
        return try eventual.value(within: seconds)
    }

    /// Ends the program after the given time. Some waits have no time limit, and without this the program could hang.
    private func end(after seconds: Double) {
        DispatchQueue.global().asyncAfter(deadline: .now() + seconds) { [self] in
            let lastLine = condition.withLock { self.lastLine }
            say("FAILED: not done after \(seconds) s; the last line was '\(lastLine)'")
            exit(1)
        }
    }

    /// Runs a sample in the directory that is the only argument of the program, and ends the program.
    public static func run(_ sample: String, _ body: (RunJournal, URL) throws -> Void) -> Never {
        let journal = RunJournal()
        journal.end(after: 300)
        guard CommandLine.arguments.count == 2 else {
            journal.say("usage: \(sample) DIRECTORY")
            exit(64)
        }
        // Messages contain the resolved path of the directory. This path can differ from the path that the user typed.
        let directory = URL(fileURLWithPath: CommandLine.arguments[1], isDirectory: true)
            .resolvingSymlinksInPath().appendingPathComponent(sample, isDirectory: true)
        do {
            if FileManager.default.fileExists(atPath: directory.path) {
                try FileManager.default.removeItem(at: directory)
            }
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
            try body(journal, directory)
        } catch {
            journal.say("FAILED: \(error)")
            exit(1)
        }
        journal.say("done")
        exit(0)
    }
}

/// The error for an event that did not happen in time.
public struct TimeoutError: Error, CustomStringConvertible {
    let what: String
    let seconds: Double
    var meanwhile: [String] = []

    public var description: String {
        "waited \(seconds) s for '\(what)'; what happened otherwise: \(meanwhile)"
    }
}

public struct UnexpectedEvent: Error, CustomStringConvertible {
    let what: String
    public init(what: String) { self.what = what }
    public var description: String { "not expected: '\(what)'" }
}
