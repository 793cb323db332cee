// SPDX-License-Identifier: Apache-2.0
import LinuxSystem
import Synchronization

/// When a file was last not found under its name, because another program had taken that away around the mount.
///
/// The kernel walks the path of such a request a second time, and not a third (D214): what a look finds in the time after that is
/// kept open, so that the request finds it, whatever becomes of the name.
final class Staleness: Sendable {
    /// How long the kernel's second walk may take.
    private static let period: UInt64 = 1_000_000_000
    private let last = Atomic<UInt64>(0)

    func note() { last.store(MonotonicClock.nanoseconds, ordering: .relaxed) }

    /// Costs nothing where nothing was stale.
    var isRecent: Bool {
        let noted = last.load(ordering: .relaxed)
        return noted > 0 && MonotonicClock.nanoseconds < noted + Self.period
    }
}
