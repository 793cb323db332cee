// SPDX-License-Identifier: Apache-2.0
import ArgumentParser
import ControlClient
import Glibc
import LinuxSystem

/// The subcommand that is the daemon. After `truce mount` has opened and checked everything, it executes its own
/// program with this subcommand.
struct ServeCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "serve", abstract: "The daemon behind 'truce mount'.", shouldDisplay: false)
    }

    /// The numbers of the descriptors that `truce mount` has opened and passes to the daemon.
    static let (sourceNumber, lockNumber, readinessNumber): (CInt, CInt, CInt) = (3, 4, 5)

    @Option(name: .customShort("o"))
    var options: [String] = []

    @Flag(help: "The mount replaces a dead mount.")
    var replacing = false

    @Argument var source: String
    @Argument var mountpoint: String

    func run() throws {
        for number in [Self.sourceNumber, Self.lockNumber, Self.readinessNumber] {
            guard fcntl(number, F_SETFD, FD_CLOEXEC) == 0 else {
                throw CommandFailure(.usage, "only 'truce mount' may run 'serve'; use 'truce mount'")
            }
        }
        let log = SystemLog.openSystemLog()
        let readiness = try ReadinessPipe(OwnedDescriptor(adopting: Self.readinessNumber))
        let daemon = DaemonProcess(
            mounting: MountPlan.Target(
                source: source, mountpoint: mountpoint, options: try MountOptions(parsing: options),
                replacesDeadMount: replacing),
            log: log)
        do {
            try daemon.run(
                source: OwnedDescriptor(adopting: Self.sourceNumber),
                lock: OwnedDescriptor(adopting: Self.lockNumber)
            ) { try readiness.announce() }
        } catch let failure as CommandFailure {
            if !readiness.report(failure) { log.write(failure.message) }
            log.finish(within: DaemonProcess.logFlushTimeout)
            Glibc.exit(failure.status.rawValue)
        }
    }
}

/// The pipe by which the daemon reports to `truce mount` whether it is ready. `truce mount` has started the daemon.
final class ReadinessPipe: Sendable {
    private let pipe: OwnedDescriptor
    /// A descriptor of `/dev/null`, opened before the mount is made, because the mount may cover `/dev`.
    private let nothing: OwnedDescriptor

    init(_ pipe: consuming OwnedDescriptor) throws(CommandFailure) {
        self.pipe = pipe
        do throws(Errno) {
            nothing = OwnedDescriptor(
                adopting: try retryingOnInterrupt { open("/dev/null", O_RDWR | O_CLOEXEC) })
        } catch {
            throw CommandFailure(.failed, "/dev/null cannot be opened: \(error)")
        }
    }

    /// Reports that the daemon is ready, by a single zero byte. Then detaches the daemon from the terminal.
    ///
    /// Throws if no process reads the pipe: the user has then interrupted `truce mount`.
    func announce() throws {
        guard isHeard else {
            throw CommandFailure(.failed, "the program that asked for this mount has ended")
        }
        LineOutput.writeExactly([0], to: pipe.rawValue)
        for number in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, pipe.rawValue] {
            guard dup2(nothing.rawValue, number) >= 0 else { throw Errno.last }
        }
    }

    /// Whether `truce mount` still reads the pipe.
    private var isHeard: Bool {
        var status = stat()
        guard fstat(pipe.rawValue, &status) == 0, status.st_mode & S_IFMT == S_IFIFO else { return false }
        var event = pollfd(fd: pipe.rawValue, events: Int16(POLLOUT), revents: 0)
        return poll(&event, 1, 0) == 1 && event.revents & Int16(POLLERR) == 0
    }

    /// Sends an exit code and a message. Returns false if `truce mount` no longer reads the pipe.
    func report(_ failure: CommandFailure) -> Bool {
        guard isHeard else { return false }
        LineOutput.writeExactly(
            [UInt8(failure.status.rawValue)] + Array(failure.message.utf8), to: pipe.rawValue)
        return true
    }
}
