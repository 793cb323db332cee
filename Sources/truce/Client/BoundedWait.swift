// SPDX-License-Identifier: Apache-2.0
import ControlClient
import LinuxSystem
import Synchronization

/// Limits how long the command waits for a mount. A system call on a mount has no time limit, and could wait for ever.
enum BoundedWait {
    static let seconds: UInt64 = 5

    /// Runs `body` on a separate thread. Returns nil if `body` takes longer than 5 s.
    ///
    /// The thread then goes on running `body`, until the process ends.
    static func result<Value: Sendable>(of body: @escaping @Sendable () -> Value) -> Value? {
        do throws(Errno) {
            let answer = try Answer<Value>()
            let thread = try JoinableThread { answer.give(body()) }
            guard let value = answer.wait(seconds: seconds) else {
                thread.detach()
                return nil
            }
            thread.join()
            return value
        } catch {
            // If no thread can be created, `body` runs on this thread without a time limit. Most mounts answer soon.
            return body()
        }
    }

    private final class Answer<Value: Sendable>: Sendable {
        private let signal: WakeEvent
        private let value = Mutex<Value?>(nil)

        init() throws(Errno) { signal = try WakeEvent() }

        func give(_ answer: Value) {
            value.withLock { $0 = answer }
            signal.raise()
        }

        func wait(seconds: UInt64) -> Value? {
            let end = MonotonicClock.nanoseconds + seconds * 1_000_000_000
            while true {
                if let answer = value.withLock({ $0 }) { return answer }
                guard MonotonicClock.nanoseconds < end else { return nil }
                signal.wait(until: end)
            }
        }
    }
}

extension BoundedWait {
    /// Calls `question`, which asks a mount, and returns the answer. Fails if the answer takes longer than 5 s.
    static func answer<Value: Sendable>(
        of mount: MountEntry, to question: @escaping @Sendable () throws(CommandFailure) -> Value
    ) throws(CommandFailure) -> Value {
        let found = result { () -> Result<Value, CommandFailure> in
            do throws(CommandFailure) { return .success(try question()) } catch { return .failure(error) }
        }
        guard let found else { throw CommandFailure(silenceOf: mount.mountpoint) }
        return try found.get()
    }
}

extension DaemonClient {
    /// Returns the process ID of the daemon of a mount. Fails if the daemon's answer takes longer than 5 s.
    static func pid(of mount: MountEntry) throws(CommandFailure) -> Int32 {
        try BoundedWait.answer(of: mount) { () throws(CommandFailure) in try DaemonClient(to: mount).peer.pid
        }
    }
}

extension DaemonClient {
    /// Fails if the daemon does not answer. Callers check this while they wait for a claim: a daemon that does not
    /// answer cannot grant the claim.
    static func checkResponds(_ mount: MountEntry) throws(CommandFailure) {
        do throws(CommandFailure) {
            _ = try DaemonClient.pid(of: mount)
        } catch {
            // A daemon that has too many connections refuses this connection. The refusal is also an answer.
            guard error.status != .timedOut else { throw error }
        }
    }
}

extension CommandFailure {
    init(silenceOf mountpoint: [UInt8]) {
        self.init(
            .timedOut,
            "the daemon of '\(mountpoint.printable)' did not answer within \(BoundedWait.seconds) s")
    }
}
