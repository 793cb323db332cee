// SPDX-License-Identifier: Apache-2.0
import Foundation

/// A test that did not succeed, or a case of a test with arguments.
struct Failure: Hashable {
    enum How: Hashable {
        case issue
        /// The process crashed. The text is the message of the assertion that failed, or the name of the signal.
        case crash(String)
        case hang(seconds: Int)
    }

    /// The name of the test, such as `ScenarioTests.replay(name:)`.
    let test: String
    /// The argument of the test case; nil if the test has no arguments.
    let argument: String?
    let how: How

    var place: String {
        if let argument {
            return test.hasPrefix("ScenarioTests.") ? "scenario \(argument)" : "\(test) \(argument)"
        }
        return test
    }

    var description: String {
        switch how {
        case .issue: place
        case .crash(let message): "\(message) in \(place)"
        case .hang(let seconds): "a hang (over \(seconds) s) in \(place)"
        }
    }
}

/// A process that runs the built tests, and the events that it reports.
struct TestRun {
    let binary: String
    let arguments: [String]
    let environment: [String: String]
    /// The seconds of processor time after which the process is considered to hang. Other work on the machine does not change
    /// this time.
    let bound: Double
    /// The seconds of real time after which the process is considered to hang. A process that waits for an event uses no
    /// processor time.
    static let longest = 600.0

    private static let starting = NSLock()

    fileprivate struct State {
        var test = "the start of the tests"
        var argument: String?
        var failures: [Failure] = []
        var hasEnded = false
    }

    /// Runs the tests until they end, or until `isEnough` returns true for the failures up to then. Returns the failures and
    /// the processor time.
    func failures(until isEnough: ([Failure]) -> Bool) throws -> (failures: [Failure], seconds: Double) {
        let errors = NSTemporaryDirectory() + "mutant-\(getpid())-\(UUID().uuidString)"
        defer { unlink(errors) }
        let (process, stream) = try start(errors: errors)
        defer { close(stream) }
        var state = State()
        let deadline = Date().addingTimeInterval(Self.longest)
        var rest: [UInt8] = []
        var isOver = false
        reading: while !isOver, deadline.timeIntervalSinceNow > 0, Self.computed(by: process) < bound {
            var poller = pollfd(fd: stream, events: Int16(POLLIN), revents: 0)
            guard poll(&poller, 1, 100) > 0 else { continue }
            var buffer = [UInt8](repeating: 0, count: 65_536)
            let count = read(stream, &buffer, buffer.count)
            isOver = count <= 0
            rest += buffer[..<max(0, count)]
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                try take(Data(rest[..<end]), &state)
                rest.removeSubrange(...end)
                if isEnough(state.failures) { break reading }
            }
        }
        let hangs = !isOver && !isEnough(state.failures)
        kill(process, SIGKILL)
        var (status, usage) = (Int32(0), rusage())
        wait4(process, &status, 0, &usage)
        if hangs { state.fail(.hang(seconds: Int(bound))) }
        if isOver, !state.hasEnded { state.fail(.crash(reason(status, errors))) }
        let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
        let parts = usage.ru_utime.tv_usec + usage.ru_stime.tv_usec
        return (state.failures, Double(seconds) + Double(parts) / 1e6)
    }

    private static func computed(by process: pid_t) -> Double {
        var (clock, time) = (clockid_t(), timespec())
        guard clock_getcpuclockid(process, &clock) == 0, clock_gettime(clock, &time) == 0 else { return 0 }
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    private func start(errors: String) throws -> (pid_t, Int32) {
        var ends: [Int32] = [0, 0]
        // While the lock is held, no other thread starts a process. Such a process would inherit the ends of the pipe before
        // they get the flag FD_CLOEXEC, and would keep the pipe open.
        Self.starting.lock()
        defer { Self.starting.unlock() }
        guard pipe(&ends) == 0 else { throw Complaint("pipe: \(String(cString: strerror(errno)))") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 2, errors, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 3)
        let words =
            [
                binary, "--testing-library", "swift-testing", "--no-parallel", "--event-stream-output-path",
                "/dev/fd/3",
            ]
            + arguments
        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0)=\($1)" }
        let (argv, envp) = (words.map { strdup($0) } + [nil], variables.map { strdup($0) } + [nil])
        defer { for text in argv + envp { free(text) } }
        var process: pid_t = 0
        let code = posix_spawn(&process, binary, &actions, nil, argv, envp)
        close(ends[1])
        guard code == 0 else {
            throw Complaint("\(binary) cannot be started: \(String(cString: strerror(code))).")
        }
        return (process, ends[0])
    }

    private func take(_ line: Data, _ state: inout State) throws {
        guard let record = try JSONSerialization.jsonObject(with: line) as? [String: Any],
            let payload = record["payload"] as? [String: Any], let kind = payload["kind"] as? String
        else {
            throw Complaint(
                "The tests said something that is no event: \(String(decoding: line, as: UTF8.self))")
        }
        if record["kind"] as? String == "test" { return }
        let message = (payload["messages"] as? [[String: Any]])?.first?["text"] as? String ?? ""
        switch kind {
        case "testStarted":
            state.test = Self.name(payload["testID"] as? String ?? "")
            state.argument = nil
        case "testCaseStarted": state.argument = Self.argument(message)
        case "issueRecorded":
            let issue = payload["issue"] as? [String: Any]
            if issue?["isFailure"] as? Bool ?? true { state.fail(.issue) }
        case "runEnded": state.hasEnded = true
        default: break
        }
    }

    /// Returns a test's name in short form: `ScenarioTests.replay(name:)` for
    /// `ArbitrationTests.ScenarioTests/replay(name:)/ScenarioTests.swift:14:6`.
    private static func name(_ id: String) -> String {
        let parts = id.split(separator: "/")
        let suite = parts.first?.drop { $0 != "." }.dropFirst() ?? ""
        return parts.count > 1 ? "\(suite).\(parts[1])" : String(suite)
    }

    /// Returns the argument in a message: `both` for `Test case passing 1 argument name → "both" to "each …" started.`
    private static func argument(_ message: String) -> String? {
        guard let start = message.range(of: "→ "), let end = message.range(of: " to \"", options: .backwards),
            start.upperBound < end.lowerBound
        else { return nil }
        return message[start.upperBound..<end.lowerBound].trimmingCharacters(in: ["\""])
    }

    private func reason(_ status: Int32, _ errors: String) -> String {
        let said =
            FileManager.default.contents(atPath: errors).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let line = said.split(separator: "\n").first {
            $0.contains("Assertion failed") || $0.contains("Fatal error")
                || $0.contains("Precondition failed")
        }
        if let line, let message = line.split(separator: ": ", maxSplits: 1).last {
            return message.hasPrefix("Assertion failed: ")
                ? "invariant \(message.dropFirst("Assertion failed: ".count))" : "a crash (\(message))"
        }
        return status & 0x7f != 0 ? "a crash (signal \(status & 0x7f))" : "an end with status \(status >> 8)"
    }
}

extension TestRun.State {
    fileprivate mutating func fail(_ how: Failure.How) {
        let failure = Failure(test: test, argument: argument, how: how)
        if failures.last != failure { failures.append(failure) }
    }
}
