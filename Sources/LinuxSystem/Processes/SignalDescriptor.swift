// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A descriptor from which a process reads its signals. The signals no longer interrupt the calling thread.
package struct SignalDescriptor: ~Copyable {
    private let descriptor: OwnedDescriptor
    let previousMask: sigset_t

    /// Blocks the signals `numbers`. Callers do this before they start other threads, because a new thread inherits the signal
    /// mask.
    package init(_ numbers: [CInt]) throws(Errno) {
        var (signals, before) = (sigset_t(), sigset_t())
        sigemptyset(&signals)
        for number in numbers { sigaddset(&signals, number) }
        let result = pthread_sigmask(SIG_BLOCK, &signals, &before)
        guard result == 0 else { throw Errno(rawValue: result) }
        let rawValue = try retryingOnInterrupt { [signals] in
            withUnsafePointer(to: signals) { clinux_signal_descriptor($0) }
        }
        previousMask = before
        descriptor = OwnedDescriptor(adopting: rawValue)
    }

    /// The descriptor, which is readable while an unread signal exists.
    package var rawValue: CInt { descriptor.rawValue }

    /// Reads the number of the next signal; returns nil if no signal has come.
    package func next() -> CInt? {
        let number = clinux_next_signal(descriptor.rawValue)
        return number > 0 ? number : nil
    }
}

/// Waits for several descriptors at once.
package enum Readiness {
    /// Waits until a descriptor is readable or has ended, and returns all such descriptors.
    ///
    /// Returns an empty set when `moment` of the monotonic clock, in nanoseconds, comes first.
    package static func wait(for descriptors: [CInt], until moment: UInt64?) throws(Errno) -> Set<CInt> {
        var events = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        while true {
            let now = MonotonicClock.nanoseconds
            // The time is rounded up, because a wait of zero would make the loop spin in the last millisecond.
            let left = moment.map { $0 > now ? CInt(clamping: ($0 - now + 999_999) / 1_000_000) : 0 } ?? -1
            let count = poll(&events, nfds_t(events.count), left)
            if count >= 0 { return Set(events.filter { $0.revents != 0 }.map(\.fd)) }
            guard Errno.last == .interrupted else { throw .last }
        }
    }
}
