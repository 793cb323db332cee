// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

/// A command that runs because of a message.
struct HookInvocation {
    enum Kind { case relinquishment, otherRequest, event }

    let command: String
    /// The last part of the message's method.
    let message: String
    let kind: Kind
    /// The ID of the request to answer; nil if there is none, or it was answered.
    private(set) var id: MessageID?
    /// When the answer must be sent, on the monotonic clock in nanoseconds.
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

    /// Makes the command that asks whether there is anything to save; it is told of no event.
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

    /// Takes the request to answer at once, if it asks to relinquish. Then the command has no deadline.
    mutating func takeEarlyAnswer() -> MessageID? {
        guard kind == .relinquishment, let id else { return nil }
        (self.id, deadline) = (nil, nil)
        return id
    }

    /// Always set or removed, regardless of our own environment.
    private static let names = ["TRUCE_PATH", "TRUCE_NEW_PATH", "TRUCE_SUBITEM", "TRUCE_NEW_SUBITEM"]

    /// A little less than the server's time, because an answer at the deadline is late.
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

/// The running command of an invocation, with its processes.
final class HookProcess {
    /// How long a command has to end after SIGTERM.
    private static let graceNanoseconds: UInt64 = 1_000_000_000

    let invocation: HookInvocation
    private let pid: Int32
    private let watch: OwnedDescriptor
    /// When its group is killed; nil unless it was asked to end.
    private var end: UInt64?

    /// Starts the command by `/bin/sh`, as the leader of a process group. It must not read the input of other programs.
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

    /// Readable once the command has ended by itself; nil once it was asked to end.
    var descriptor: CInt? { end == nil ? watch.rawValue : nil }

    /// When the command must be handled next.
    var nextDeadline: UInt64? { end ?? invocation.deadline }

    /// Asks the command and all of its group to end.
    func terminate() {
        kill(-pid, SIGTERM)
        end = MonotonicClock.nanoseconds + Self.graceNanoseconds
    }

    var isTerminated: Bool { end != nil }

    /// Waits for a command that has ended by itself, and returns how it failed; nil if it succeeded.
    func failure() throws(Errno) -> String? {
        switch try OtherProcess.waitForTermination(of: pid) {
        case .exited(0): nil
        case .exited(let code): "ended with code \(code)"
        case .signalled(let signal): "was ended by signal \(signal)"
        }
    }

    /// Kills the rest of the group. Its number is not reused before the command was waited for.
    func finish() throws(Errno) {
        kill(-pid, SIGKILL)
        _ = try OtherProcess.waitForTermination(of: pid)
    }

    /// Terminates and finishes the command, with no more time in between than it needs.
    func endNow() throws(Errno) {
        if !isTerminated { terminate() }
        _ = try Readiness.wait(for: [watch.rawValue], until: end)
        try finish()
    }
}
