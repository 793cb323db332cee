// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// A descriptor from which a process reads its signals. These signals then do not interrupt the process any more.
package struct SignalDescriptor: ~Copyable {
    private let descriptor: OwnedDescriptor
    let previousMask: sigset_t

    /// Blocks the signals `numbers` in the calling thread. Callers do this before they start other threads, because a new
    /// thread inherits the signal mask.
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

    /// The descriptor. It is readable while there is a signal that was not read yet.
    package var rawValue: CInt { descriptor.rawValue }

    /// Reads the number of the next signal. Returns nil if there is no signal.
    package func next() -> CInt? {
        let number = clinux_next_signal(descriptor.rawValue)
        return number > 0 ? number : nil
    }
}

/// Waits until one of several descriptors is readable.
package enum Readiness {
    /// Waits until a descriptor is readable or has reached its end, and returns all descriptors in that state.
    ///
    /// Returns an empty set if none is readable at `moment`, in nanoseconds of the monotonic clock.
    package static func wait(for descriptors: [CInt], until moment: UInt64?) throws(Errno) -> Set<CInt> {
        var events = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        while true {
            let now = MonotonicClock.nanoseconds
            // The time is rounded up, because waits of 0 ms would keep the processor busy in the last millisecond.
            let left = moment.map { $0 > now ? CInt(clamping: ($0 - now + 999_999) / 1_000_000) : 0 } ?? -1
            let count = poll(&events, nfds_t(events.count), left)
            if count >= 0 { return Set(events.filter { $0.revents != 0 }.map(\.fd)) }
            guard Errno.last == .interrupted else { throw .last }
        }
    }
}
