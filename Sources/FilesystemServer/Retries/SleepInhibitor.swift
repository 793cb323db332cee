// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// Ends the waits of all requests before the machine goes to sleep.
///
/// The kernel freezes all programs before the machine sleeps. It cannot freeze a program that waits for an answer of
/// the daemon. If a program is not frozen after 20 s, the machine stays awake. So the daemon asks logind to announce
/// each sleep, and to delay it until the waits have ended. Without logind, the daemon learns of no sleep.
struct SleepInhibitor: Sendable {
    /// The time between two attempts to reach logind, in seconds. logind may start later than the mount.
    private static let beforeNextTry: UInt32 = 60
    /// If the machine has not slept this long after the announcement, the sleep counts as cancelled. In microseconds.
    private static let longest: UInt64 = 60_000_000
    /// How long the daemon delays the sleep until all waits have ended, and the time between two checks, both in
    /// nanoseconds. By default, logind delays a sleep for 5 s at most.
    private static let (patience, interval): (UInt64, UInt32) = (3_000_000_000, 10_000_000)

    private let parkedRequests: ParkedRequests
    private let reason: String
    private let log: @Sendable (String) -> Void

    init(_ parkedRequests: ParkedRequests, of mountpoint: String, log: @escaping @Sendable (String) -> Void) {
        self.parkedRequests = parkedRequests
        reason = "programs may wait for files in \(mountpoint)"
        self.log = log
    }

    /// Waits for announcements of a sleep, and ends the waits of requests before each sleep. Returns only if the
    /// library for logind is missing.
    func run() {
        while true {
            do throws(Errno) {
                try attend(to: SleepDelayLock(because: reason))
            } catch {
                parkedRequests.wakeUp()
                if error == .notImplemented { return }
            }
            sleep(Self.beforeNextTry)
        }
    }

    private func attend(to watch: consuming SleepDelayLock) throws(Errno) {
        while true {
            guard try watch.next() == .preparingForSleep else { continue }
            let count = parkedRequests.fallAsleep()
            log("the machine is about to sleep: \(count) requests wait no longer")
            waitUntilNobodyWaits()
            watch.allowSleep()
            while try watch.next(within: Self.longest) == .preparingForSleep {}
            parkedRequests.wakeUp()
            try watch.renewInhibitor()
        }
    }

    /// Waits until no request is waiting any more, for at most `patience`. This can take time: some waiting requests
    /// end only when contents are written to the disk.
    private func waitUntilNobodyWaits() {
        let end = MonotonicClock.nanoseconds + Self.patience
        while !parkedRequests.isEmpty, MonotonicClock.nanoseconds < end { usleep(Self.interval / 1000) }
    }
}
