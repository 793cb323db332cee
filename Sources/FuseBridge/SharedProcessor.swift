// SPDX-License-Identifier: Apache-2.0

/// Tells when the thread that looks for requests seems to be on one processor with the one that makes them, and what to do.
///
/// Then it finds each at the first look: whom it answers runs instead of it, and it goes on when that one waits for the next
/// answer. So to look gains nothing, and whoever runs there waits for who looks. The kernel wakes a thread on a processor that
/// has nothing to do, but not where the client may run on one processor only, nor where it packs the threads of a virtual
/// machine onto few of them. From the one who looks can move away; by the other it is followed.
package struct SharedProcessor {
    package enum Advice: Equatable {
        case stay
        /// To another processor.
        case leave
        /// That did not help: nobody is to look until this moment.
        case rest(until: UInt64)
    }

    /// More requests in a row that were there at the first look; each that was not halves their number.
    private static let enough = 8
    /// Who shares a processor again within this time was followed. Times are in nanoseconds.
    private static let soon: UInt64 = 10_000_000
    /// For how long nobody looks then; twice as long each time.
    private static let (shortest, longest): (UInt64, UInt64) = (1_000_000, 16_000_000)

    private var count = 0
    /// When it left last, and until when it rests or has rested; 0 before.
    private var left: UInt64 = 0
    private var rested: UInt64 = 0
    private var pause = shortest

    package init() {}

    /// Nothing is known of the requests that came meanwhile.
    package mutating func slept() { count = 0 }

    /// A request of a thread was found, at the first look or later, at a moment of the monotonic clock.
    package mutating func found(atFirstLook isFirst: Bool, at now: UInt64) -> Advice {
        count = isFirst ? count + 1 : count / 2
        guard count > Self.enough else { return .stay }
        count = 0
        if left != 0, left >= rested, now < left + Self.soon {
            rested = now + pause
            pause = min(2 * pause, Self.longest)
            return .rest(until: rested)
        }
        if now > max(left, rested) + Self.soon { pause = Self.shortest }
        left = now
        return .leave
    }
}
