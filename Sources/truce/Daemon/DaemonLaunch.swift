// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Glibc
import LinuxSystem

/// Starts the daemon, and waits until the daemon is ready or reports an error.
struct DaemonLaunch: ~Copyable {
    /// The time limit for the start of the daemon. A start usually takes milliseconds. If it takes this long, the
    /// source does not answer.
    private static let timeoutMilliseconds: CInt = 60_000

    /// After SIGTERM, the command waits this long for the daemon to end.
    private static let shutdownTimeoutMilliseconds: CInt = 2_000

    private let plan: MountPlan

    init(of plan: consuming MountPlan) { self.plan = plan }

    /// Starts the daemon. If that succeeds, prints a line, unless `isQuiet` is true.
    func run(isQuiet: Bool = false) throws {
        let inside = try DeadMountReplacement.mounts(inOneReplacedBy: plan.target)
        let readiness = try Pipe()
        let childOutput = try Pipe()
        let child = try spawn(readiness.writeEnd, childOutput.writeEnd)
        let answer = try Self.answer(readiness.reading(), of: child)
        // Collects the output of libfuse and fusermount3. It is printed only if the daemon fails to start.
        let words =
            try answer == [0]
            ? [] : childOutput.reading().readToEnd(limit: 64 << 10, within: Self.shutdownTimeoutMilliseconds)
        guard let code = answer.first else {
            Self.end(child)
            let code = try OtherProcess.exitCode(of: child)
            throw CommandFailure(
                .failed, "the daemon ended with code \(code) before it was ready: \(Self.joined(words))")
        }
        guard code == 0 else { throw Self.failure(code, answer.dropFirst(), words) }
        if plan.target.replacesDeadMount { DeadMountReplacement.say(plan.target.mountpoint, with: inside) }
        do {
            try confirm(child, isQuiet: isQuiet)
        } catch {
            Self.end(child)
            throw error
        }
    }

    private func spawn(
        _ readiness: borrowing OwnedDescriptor, _ childOutput: borrowing OwnedDescriptor
    ) throws -> Int32 {
        let target = plan.target
        let arguments =
            ["truce", "serve", "-o", target.options.words.joined(separator: ",")]
            + (target.replacesDeadMount ? ["--replacing"] : []) + ["--", target.source, target.mountpoint]
        var spawner = ProcessSpawner(
            "/proc/self/exe", arguments: arguments.map { Array($0.utf8) }, environment: Self.environment)
        spawner.startSession()
        for number in [STDOUT_FILENO, STDERR_FILENO] { try spawner.pass(childOutput.rawValue, as: number) }
        try spawner.pass(plan.source.rawValue, as: ServeCommand.sourceNumber)
        try spawner.pass(plan.lock.rawValue, as: ServeCommand.lockNumber)
        try spawner.pass(readiness.rawValue, as: ServeCommand.readinessNumber)
        return try spawner.start()
    }

    /// The environment variables that the command passes to the daemon. All others are left out.
    private static var environment: [String] {
        ["PATH", "HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SYSTEM_BUS_ADDRESS", "TZ", "LANG"]
            .compactMap { name in
                truce.environmentVariable(name).map { "\(name)=\($0)" }
            }
    }

    /// Reads the daemon's report from the pipe. If the report takes longer than 60 s, ends the daemon.
    private static func answer(_ pipe: consuming OwnedDescriptor, of child: Int32) throws -> [UInt8] {
        var event = pollfd(fd: pipe.rawValue, events: Int16(POLLIN), revents: 0)
        let count = try retryingOnInterrupt { poll(&event, 1, timeoutMilliseconds) }
        guard count == 1 else {
            end(child)
            kill(child, SIGKILL)
            throw CommandFailure(.timedOut, "the daemon was not ready after \(timeoutMilliseconds / 1000) s")
        }
        return try pipe.readToEnd(limit: 1)
    }

    private static func failure(
        _ code: UInt8, _ sentence: ArraySlice<UInt8>, _ words: [UInt8]
    ) -> CommandFailure {
        let said = joined(words)
        let message = Array(sentence).printable + (said.isEmpty ? "" : " (\(said))")
        return CommandFailure(ExitStatus(rawValue: Int32(code)) ?? .failed, message)
    }

    /// Ends a daemon that could not start properly, so that its mount disappears.
    private static func end(_ child: Int32) {
        kill(child, SIGTERM)
        do throws(Errno) {
            let watch = try OtherProcess.watch(child)
            _ = OtherProcess.hasExited(watch, within: shutdownTimeoutMilliseconds)
        } catch {
            // The daemon is about to end by itself. The command does not wait for that.
            return
        }
    }

    /// Joins the lines of a text into one line.
    private static func joined(_ words: [UInt8]) -> String {
        words.split(separator: UInt8(ascii: "\n")).map { Array($0).printable }.joined(separator: "; ")
    }

    private var immediateExit: CommandFailure {
        CommandFailure(
            .failed,
            "'\(plan.target.mountpoint.printable)' was mounted, but its daemon ended at once (see its log)")
    }

    /// Checks that the mount and the daemon answer: makes one request through the mount, and one over the control
    /// socket.
    private func confirm(_ child: Int32, isQuiet: Bool) throws(CommandFailure) {
        let target = plan.target
        guard let mount = try MountFinder.table().top(at: Array(target.mountpoint.utf8)), mount.isTruce else {
            throw immediateExit
        }
        let ended = immediateExit
        let answer = try BoundedWait.answer(of: mount) { () throws(CommandFailure) in
            var status = statvfs()
            guard mount.mountpoint.withPath({ statvfs($0, &status) }) == 0 else { throw ended }
            var client = try DaemonClient(to: mount)
            return try client.status()
        }
        for problem in answer.rules?.problems ?? [] {
            LineOutput.say("truce: \(problem)", to: STDERR_FILENO)
        }
        guard !isQuiet else { return }
        let data = answer.options.dataPath
        // Until a file is opened, the daemon has not decided how data are read and written.
        let note = data == "undecided" ? "" : "; data: \(data)"
        LineOutput.say(target.readyLine(pid: child) + note, to: STDOUT_FILENO)
    }
}

extension MountPlan.Target {
    /// Returns the line that the command prints on success.
    func readyLine(pid: Int32) -> String {
        isInPlace
            ? "truce: '\(mountpoint.printable)' is mounted in place, pid \(pid)"
            : "truce: '\(source.printable)' is mounted at '\(mountpoint.printable)', pid \(pid)"
    }
}
