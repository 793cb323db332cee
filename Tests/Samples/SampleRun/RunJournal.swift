// SPDX-License-Identifier: Apache-2.0
public import Foundation

/// What happens in a run, noted by those it happens to and told in the order in which the run asks for it.
///
/// Messages arrive on other threads, and some of them more often than once; what is printed is what was
/// waited for, so that every run prints the same lines.
public final class RunJournal: @unchecked Sendable {
    // @unchecked: the two variables are touched with `condition` locked only.
    private let condition = NSCondition()
    private var events: [String] = []
    private var lastLine = "the start"

    public init() {}

    public func say(_ line: String) {
        condition.withLock { lastLine = line }
        // What print prints stays in a buffer, and is lost when a run that hangs is ended from outside.
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }

    public func note(_ event: String) {
        condition.withLock {
            events.append(event)
            condition.broadcast()
        }
    }

    /// Waits until something has happened, and tells of it. It counts as told: what happens twice is expected
    /// twice.
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

    /// Fails if something has happened that should not have.
    public func refute(_ event: String) throws {
        if condition.withLock({ events.contains(event) }) { throw UnexpectedEvent(what: event) }
    }

    /// Runs what blocks on a thread of its own, and fails if it takes too long.
    public func finish<Value: Sendable>(
        _ what: String, within seconds: Double = 30, _ body: @escaping @Sendable () throws -> Value
    ) throws -> Value {
        let eventual = EventualResult<Value>(what)
        DispatchQueue.global().async { eventual.settle(Result { try body() }) }
        return try eventual.value(within: seconds)
    }

    /// Ends the program if it waits in vain where nothing else has a bound.
    private func end(after seconds: Double) {
        DispatchQueue.global().asyncAfter(deadline: .now() + seconds) { [self] in
            let lastLine = condition.withLock { self.lastLine }
            say("FAILED: not done after \(seconds) s; the last line was '\(lastLine)'")
            exit(1)
        }
    }

    /// Runs a whole sample on the directory that is its only argument, and ends the program.
    public static func run(_ sample: String, _ body: (RunJournal, URL) throws -> Void) -> Never {
        let journal = RunJournal()
        journal.end(after: 300)
        guard CommandLine.arguments.count == 2 else {
            journal.say("usage: \(sample) DIRECTORY")
            exit(64)
        }
        // What the system calls the directory may differ from what the user typed, and messages use its name.
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

/// Something that was waited for in vain.
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
