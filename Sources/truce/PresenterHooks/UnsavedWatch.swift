// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// Runs the command of `--unsaved` once a second, to find out whether the file has unsaved changes.
///
///     pausing ──a second is over──▶ asking ──the command ends, or takes too long──▶ pausing
struct UnsavedWatch {
    private enum State {
        case pausing(until: UInt64)
        case asking(HookProcess)
    }

    private static let pauseNanoseconds: UInt64 = 1_000_000_000
    /// The time that the command may take, in nanoseconds.
    private static let timeoutNanoseconds: UInt64 = 10_000_000_000

    private let command: String
    private let mounted: MountedPath
    private var state = State.pausing(until: 0)
    /// The last state that was sent to the daemon: whether the file has unsaved changes.
    private var isUnsaved = false
    /// Whether the file was saved while the command was running. The command's result may then be from before the save,
    /// so it is not used.
    private var isOutdated = false

    init(command: String, of mounted: MountedPath) {
        self.command = command
        self.mounted = mounted
    }

    /// A descriptor that becomes readable when the running command ends. Nil if no command is running.
    var descriptor: CInt? { if case .asking(let process) = state { process.descriptor } else { nil } }

    /// The time at which the next command starts. If a command is running, the time at which it must have ended.
    var nextDeadline: UInt64? {
        switch state {
        case .pausing(let moment): moment
        case .asking(let process): process.nextDeadline
        }
    }

    /// Starts the command, unless the pause of one second is still going on.
    mutating func ask() throws(Errno) {
        guard case .pausing(let moment) = state, moment <= MonotonicClock.nanoseconds else { return }
        let invocation = HookInvocation(
            asking: command, of: mounted, until: MonotonicClock.nanoseconds + Self.timeoutNanoseconds)
        isOutdated = false
        state = .asking(try HookProcess(invocation, outputTo: STDERR_FILENO))
    }

    /// Called when the command has ended. Returns whether the file has unsaved changes, or nil if nothing needs to be
    /// sent to the daemon.
    mutating func takeChange() throws(Errno) -> Bool? {
        guard case .asking(let process) = state else { return nil }
        pause()
        let found = try process.failure() == nil
        if isOutdated || found == isUnsaved { return nil }
        isUnsaved = found
        return found
    }

    /// Notes that the file was saved. Returns true if the daemon must be told, because the last state that was sent to
    /// the daemon is unsaved.
    mutating func noteSaved() -> Bool {
        isOutdated = true
        defer { isUnsaved = false }
        return isUnsaved
    }

    /// Ends the command if it takes too long. There is no result then.
    mutating func enforceDeadline(_ now: UInt64) throws(Errno) {
        guard case .asking(let process) = state, let moment = process.nextDeadline, moment <= now else {
            return
        }
        if process.isTerminated {
            try process.finish()
            pause()
        } else {
            LineOutput.say("truce: the command for 'unsaved' did not end in time", to: STDERR_FILENO)
            process.terminate()
        }
    }

    mutating func end() throws(Errno) {
        guard case .asking(let process) = state else { return }
        pause()
        try process.endNow()
    }

    private mutating func pause() {
        state = .pausing(until: MonotonicClock.nanoseconds + Self.pauseNanoseconds)
    }
}
