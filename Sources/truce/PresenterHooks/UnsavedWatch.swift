// SPDX-License-Identifier: Apache-2.0
import ControlClient
import Glibc
import LinuxSystem

/// Runs a command again and again, to find out whether there is anything to save.
///
///     pausing ──a second is over──▶ asking ──the command ends, or takes too long──▶ pausing
struct UnsavedWatch {
    private enum State {
        case pausing(until: UInt64)
        case asking(HookProcess)
    }

    private static let pauseNanoseconds: UInt64 = 1_000_000_000
    /// How long the command may take, in nanoseconds.
    private static let timeoutNanoseconds: UInt64 = 10_000_000_000

    private let command: String
    private let mounted: MountedPath
    private var state = State.pausing(until: 0)
    /// The state that the daemon was last told.
    private var isUnsaved = false
    /// True if a save happened since the command began: its result may be older.
    private var isOutdated = false

    init(command: String, of mounted: MountedPath) {
        self.command = command
        self.mounted = mounted
    }

    /// Readable when the command has ended.
    var descriptor: CInt? { if case .asking(let process) = state { process.descriptor } else { nil } }

    /// When the command must be handled next.
    var nextDeadline: UInt64? {
        switch state {
        case .pausing(let moment): moment
        case .asking(let process): process.nextDeadline
        }
    }

    /// Starts the command, if it is time to.
    mutating func ask() throws(Errno) {
        guard case .pausing(let moment) = state, moment <= MonotonicClock.nanoseconds else { return }
        let invocation = HookInvocation(
            asking: command, of: mounted, until: MonotonicClock.nanoseconds + Self.timeoutNanoseconds)
        isOutdated = false
        state = .asking(try HookProcess(invocation, outputTo: STDERR_FILENO))
    }

    /// Handles the end of the command. Returns the state to tell the daemon; nil if the daemon knows it.
    mutating func takeChange() throws(Errno) -> Bool? {
        guard case .asking(let process) = state else { return nil }
        pause()
        let found = try process.failure() == nil
        if isOutdated || found == isUnsaved { return nil }
        isUnsaved = found
        return found
    }

    /// Notes a save. Returns whether the daemon must be told.
    mutating func noteSaved() -> Bool {
        isOutdated = true
        defer { isUnsaved = false }
        return isUnsaved
    }

    /// Ends a command that takes too long, which has no result then.
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
