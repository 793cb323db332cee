// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

/// A command that is to run because of a message.
struct HookInvocation {
    enum Kind { case relinquishment, otherRequest, event }

    let command: String
    /// The last part of the message's method.
    let message: String
    let kind: Kind
    /// Nil for what is not answered, or was.
    private(set) var id: MessageID?
    /// When the answer has to be on its way, on the monotonic clock in nanoseconds.
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

    /// Asks whether there is anything to save, and is told of nothing that happened.
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

    /// The request to answer if it asks for a turn; the command may take as long as it likes then.
    mutating func takeEarlyAnswer() -> MessageID? {
        guard kind == .relinquishment, let id else { return nil }
        (self.id, deadline) = (nil, nil)
        return id
    }

    /// Always set or removed, whatever our own environment has.
    private static let names = ["TRUCE_PATH", "TRUCE_NEW_PATH", "TRUCE_SUBITEM", "TRUCE_NEW_SUBITEM"]

    /// A little less than the server's: an answer that comes at the deadline is late.
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

/// The command of a task while it runs, with all it started.
final class HookProcess {
    /// How long a command that is asked to end is given.
    private static let graceNanoseconds: UInt64 = 1_000_000_000

    let invocation: HookInvocation
    private let pid: Int32
    private let watch: OwnedDescriptor
    /// When its group is killed; nil unless it was asked to end.
    private var end: UInt64?

    /// By `/bin/sh`, as the leader of a process group; it must not read what others type.
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

    /// Readable once the command has ended by itself; nil once it was asked to.
    var descriptor: CInt? { end == nil ? watch.rawValue : nil }

    /// When something has to be done about it.
    var nextDeadline: UInt64? { end ?? invocation.deadline }

    /// Asks the command and all of its group to end.
    func terminate() {
        kill(-pid, SIGTERM)
        end = MonotonicClock.nanoseconds + Self.graceNanoseconds
    }

    var isTerminated: Bool { end != nil }

    /// Waits for a command that has ended by itself, and says how unless it succeeded.
    func failure() throws(Errno) -> String? {
        switch try OtherProcess.waitForTermination(of: pid) {
        case .exited(0): nil
        case .exited(let code): "ended with code \(code)"
        case .signalled(let signal): "was ended by signal \(signal)"
        }
    }

    /// Ends what is left of the group. Its number is its own until the command was waited for.
    func finish() throws(Errno) {
        kill(-pid, SIGKILL)
        _ = try OtherProcess.waitForTermination(of: pid)
    }

    /// Does both, with no more time between them than the command needs.
    func endNow() throws(Errno) {
        if !isTerminated { terminate() }
        _ = try Readiness.wait(for: [watch.rawValue], until: end)
        try finish()
    }
}
