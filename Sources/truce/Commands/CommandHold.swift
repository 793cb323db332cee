// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// An access or a run that the daemon has granted, and that lasts until a command ends.
protocol CommandHold: ~Copyable {
    /// The descriptor of the connection to the daemon.
    var connection: CInt { get }

    /// A variable for the environment of the command, with its value.
    var variable: (name: String, value: [UInt8]) { get }

    /// Reads what the daemon has sent. If the daemon is gone, says so to the user and returns false.
    mutating func hear() throws -> Bool

    /// Ends the access or the run, and waits for the daemon's reply.
    mutating func end()
}

/// The signals that could end this process before the command ends. The access or the run would then end too early.
private let passedSignals = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]

extension CommandHold where Self: ~Copyable {
    /// Runs a command, and then ends the access or the run. Returns the command's exit code, or 128 plus the signal number if
    /// a signal ended the command.
    consuming func run(_ command: [[UInt8]]) throws -> Int32 {
        let signals = try SignalDescriptor(passedSignals)
        let child: Int32
        do throws(Errno) {
            child = try start(command, signals)
        } catch {
            throw AccessCommandFailure(running: command[0], error)
        }
        let isConnected = try attend(child, signals)
        let code = try OtherProcess.exitCode(of: child)
        if isConnected { end() }
        return code
    }

    private func start(_ command: [[UInt8]], _ signals: borrowing SignalDescriptor) throws(Errno) -> Int32 {
        let environment = OwnProcess.environment(setting: [(variable.name, variable.value)])
        var spawner = ProcessSpawner(commandLine: command, environment: environment)
        spawner.inheritDescriptors()
        spawner.restoreSignals(signals)
        return try spawner.start()
    }

    /// Waits until the command ends, and passes signals on to it. Returns false if the daemon was gone before the command.
    private mutating func attend(_ child: Int32, _ signals: borrowing SignalDescriptor) throws -> Bool {
        let watch = try OtherProcess.watch(child)
        var isConnected = true
        while true {
            let ready = try Readiness.wait(
                for: [watch.rawValue, signals.rawValue] + (isConnected ? [connection] : []), until: nil)
            while let signal = signals.next() {
                // SIGINT and SIGQUIT come from the terminal, which also sends them to the command. So only the other
                // signals are passed on.
                if signal != SIGINT, signal != SIGQUIT { kill(child, signal) }
            }
            if isConnected, ready.contains(connection) { isConnected = try hear() }
            if ready.contains(watch.rawValue) { return isConnected }
        }
    }
}
