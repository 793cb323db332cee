// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import Glibc
import LinuxSystem

/// Lets nobody wait while the machine goes to sleep.
///
/// The kernel freezes all programs before it sleeps, and cannot freeze one that waits for an answer of ours. After 20 s it gives
/// up, and the machine stays awake. So logind is asked to wait for us, and says when. Where there is no logind nobody says it.
struct SleepInhibitor: Sendable {
    /// logind may come later than the mount. In seconds.
    private static let beforeNextTry: UInt32 = 60
    /// After so long awake, in microseconds, the machine has not gone to sleep, though nobody has said so.
    private static let longest: UInt64 = 60_000_000
    /// logind waits for 5 s if it is not set up otherwise. In nanoseconds, as how often is looked.
    private static let (patience, interval): (UInt64, UInt32) = (3_000_000_000, 10_000_000)

    private let parkedRequests: ParkedRequests
    private let reason: String
    private let log: @Sendable (String) -> Void

    init(_ parkedRequests: ParkedRequests, of mountpoint: String, log: @escaping @Sendable (String) -> Void) {
        self.parkedRequests = parkedRequests
        reason = "programs may wait for their turn in \(mountpoint)"
        self.log = log
    }

    /// Blocks for ever, or until it turns out that there is no library to ask logind by.
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

    /// Contents that are being kept on the disk have to be waited for.
    private func waitUntilNobodyWaits() {
        let end = MonotonicClock.nanoseconds + Self.patience
        while !parkedRequests.isEmpty, MonotonicClock.nanoseconds < end { usleep(Self.interval / 1000) }
    }
}
