// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

/// A command that `truce present` runs when a message comes from the daemon.
struct HookInvocation {
    enum Kind { case relinquishment, otherRequest, event }

    let command: String
    /// The last part of the name of the message's method, such as `save`.
    let message: String
    let kind: Kind
    /// The ID of the question that this command answers. Nil if the message is no question, or if the answer was
    /// already sent.
    private(set) var id: MessageID?
    /// The latest time for the answer, on the monotonic clock in nanoseconds. Nil if no answer is needed.
    private(set) var deadline: UInt64?
    let variables: [(name: String, value: [UInt8]?)]

    init(_ question: PresenterQuestion, _ id: MessageID, _ command: String, in mounted: MountedPath) {
        let parameters = question.parameters
        message = question.request.rawValue
        deadline = MonotonicClock.nanoseconds + Self.timeout(parameters.deadline) * 1_000_000
        variables = Self.variables(
            message, parameters.cause,
            [("TRUCE_PATH", parameters.bytesOfPath), ("TRUCE_SUBITEM", parameters.subitem?.bytes)], mounted)
        self.id = id
        self.command = command
        kind = question.request.isRelinquishment ? .relinquishment : .otherRequest
    }

    init(_ event: PresenterNoticeMessage, _ command: String, in mounted: MountedPath) {
        let parameters = event.parameters
        message = event.notice.rawValue
        variables = Self.variables(
            message, parameters.cause,
            [
                ("TRUCE_PATH", parameters.bytesOfPath), ("TRUCE_NEW_PATH", parameters.bytesOfNewPath),
                ("TRUCE_SUBITEM", parameters.subitem?.bytes),
                ("TRUCE_NEW_SUBITEM", parameters.newSubitem?.bytes),
            ], mounted)
        (id, deadline) = (nil, nil)
        self.command = command
        kind = .event
    }

    /// Makes the invocation of the command that checks whether the file has unsaved changes. No message of the daemon
    /// is the reason for this command.
    init(asking command: String, of mounted: MountedPath, until deadline: UInt64) {
        message = "unsaved"
        variables =
            [(name: "TRUCE_MESSAGE", value: Array(message.utf8))]
            + Self.names.map { ($0, $0 == Self.names[0] ? mounted.absolute : nil) }
        (id, self.deadline) = (nil, deadline)
        self.command = command
        kind = .otherRequest
    }

    var isForEvent: Bool { kind == .event }
    var isSave: Bool { message == PresenterRequest.save.rawValue }

    /// If the message is a question to relinquish, returns its ID, so that the caller can answer before the command
    /// runs. The command then has no time limit.
    mutating func takeEarlyAnswer() -> MessageID? {
        guard kind == .relinquishment, let id else { return nil }
        (self.id, deadline) = (nil, nil)
        return id
    }

    /// The environment variables that this command must set for each message. Those without a value are removed.
    private static let names = ["TRUCE_PATH", "TRUCE_NEW_PATH", "TRUCE_SUBITEM", "TRUCE_NEW_SUBITEM"]

    /// Returns a time that is a little shorter than the server's limit. An answer exactly at the limit would be late.
    private static func timeout(_ milliseconds: UInt64) -> UInt64 {
        milliseconds - min(milliseconds / 10, 100)
    }

    private static func variables(
        _ message: String, _ cause: CauseForm, _ paths: [(name: String, pathInMount: [UInt8]?)],
        _ mounted: MountedPath
    ) -> [(name: String, value: [UInt8]?)] {
        [
            ("TRUCE_MESSAGE", Array(message.utf8)), ("TRUCE_CAUSE_PID", Array("\(cause.pid)".utf8)),
            ("TRUCE_CAUSE_PROGRAM", Array(cause.program.utf8)),
            ("TRUCE_CAUSE_OPERATION", Array(cause.operation.utf8)),
        ]
            + Self.names.map { name in
                (name, paths.first { $0.name == name }?.pathInMount.map { mounted.absolute($0) })
            }
    }
}

/// A running command, with the processes that it has started (its process group).
final class HookProcess {
    /// The time between SIGTERM and SIGKILL for a command that must end.
    private static let graceNanoseconds: UInt64 = 1_000_000_000

    let invocation: HookInvocation
    private let pid: Int32
    private let watch: OwnedDescriptor
    /// The time at which the command's process group is killed. Nil if the command was not sent SIGTERM.
    private var end: UInt64?

    /// Starts the command by `/bin/sh`, in a process group of its own. The command's standard input is `/dev/null`.
    init(_ invocation: HookInvocation, outputTo output: CInt) throws(Errno) {
        let nothing = OwnedDescriptor(
            adopting: try retryingOnInterrupt { open("/dev/null", O_RDONLY | O_CLOEXEC) })
        var spawner = ProcessSpawner(
            commandLine: ["/bin/sh", "-c", invocation.command].map { Array($0.utf8) },
            environment: OwnProcess.environment(setting: invocation.variables))
        spawner.startProcessGroup()
        spawner.resetSignals()
        try spawner.pass(nothing.rawValue, as: STDIN_FILENO)
        if output != STDOUT_FILENO { try spawner.pass(output, as: STDOUT_FILENO) }
        pid = try spawner.start()
        watch = try OtherProcess.watch(pid)
        self.invocation = invocation
    }

    /// A descriptor that becomes readable when the command ends. Nil if the command was sent SIGTERM.
    var descriptor: CInt? { end == nil ? watch.rawValue : nil }

    /// The time at which the command is killed. If it was not sent SIGTERM yet, the time by which it must answer.
    var nextDeadline: UInt64? { end ?? invocation.deadline }

    /// Sends SIGTERM to the command's process group.
    func terminate() {
        kill(-pid, SIGTERM)
        end = MonotonicClock.nanoseconds + Self.graceNanoseconds
    }

    var isTerminated: Bool { end != nil }

    /// Called when the command has ended by itself. Returns a description of its failure, or nil if it succeeded.
    func failure() throws(Errno) -> String? {
        switch try OtherProcess.waitForTermination(of: pid) {
        case .exited(0): nil
        case .exited(let code): "ended with code \(code)"
        case .signalled(let signal): "was ended by signal \(signal)"
        }
    }

    /// Kills the process group, and only then waits for the command. After the wait, the kernel could give the group's
    /// number to another group.
    func finish() throws(Errno) {
        kill(-pid, SIGKILL)
        _ = try OtherProcess.waitForTermination(of: pid)
    }

    /// Sends SIGTERM to the command, and gives it a short time to end. Then kills what is left of the process group.
    func endNow() throws(Errno) {
        if !isTerminated { terminate() }
        _ = try Readiness.wait(for: [watch.rawValue], until: end)
        try finish()
    }
}
