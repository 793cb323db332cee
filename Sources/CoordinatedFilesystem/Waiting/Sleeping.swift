// SPDX-License-Identifier: Apache-2.0
import CoordinationEngine
import Glibc
import LinuxSystem

/// Lets nobody wait while the machine goes to sleep.
///
/// The kernel freezes all programs before it sleeps, and cannot freeze one that waits for an answer of ours. After 20 s it gives
/// up, and the machine stays awake. So logind is asked to wait for us, and says when. Where there is no logind nobody says it.
struct Sleeping: Sendable {
    /// logind may come later than the mount. In seconds.
    private static let beforeNextTry: UInt32 = 60
    /// After so long awake, in microseconds, the machine has not gone to sleep, though nobody has said so.
    private static let longest: UInt64 = 60_000_000
    /// logind waits for 5 s if it is not set up otherwise. In nanoseconds, as how often is looked.
    private static let (patience, interval): (UInt64, UInt32) = (3_000_000_000, 10_000_000)

    private let parking: Parking
    private let reason: String
    private let log: @Sendable (String) -> Void

    init(_ parking: Parking, of mountpoint: String, log: @escaping @Sendable (String) -> Void) {
        self.parking = parking
        reason = "programs may wait for their turn in \(mountpoint)"
        self.log = log
    }

    /// Blocks for ever, or until it turns out that there is no library to ask logind by.
    func run() {
        while true {
            do throws(Errno) {
                try attend(to: SleepWatch(because: reason))
            } catch {
                parking.wakeUp()
                if error == .notImplemented { return }
            }
            sleep(Self.beforeNextTry)
        }
    }

    private func attend(to watch: consuming SleepWatch) throws(Errno) {
        while true {
            guard try watch.next() == .isAboutToSleep else { continue }
            let count = parking.fallAsleep()
            log("the machine is about to sleep: \(count) requests wait no longer")
            waitUntilNobodyWaits()
            watch.go()
            while try watch.next(within: Self.longest) == .isAboutToSleep {}
            parking.wakeUp()
            try watch.delayAgain()
        }
    }

    /// Contents that are being kept on the disk have to be waited for.
    private func waitUntilNobodyWaits() {
        let end = MonotonicClock.nanoseconds + Self.patience
        while !parking.isEmpty, MonotonicClock.nanoseconds < end { usleep(Self.interval / 1000) }
    }
}
