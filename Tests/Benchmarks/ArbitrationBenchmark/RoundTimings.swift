// SPDX-License-Identifier: Apache-2.0
import Glibc
import LinuxSystem

/// The times of one measurement in several rounds, in nanoseconds for one operation.
struct RoundTimings {
    private(set) var rounds: [Double] = []

    mutating func add(_ nanoseconds: UInt64, for operations: Int) {
        rounds.append(Double(nanoseconds) / Double(operations))
    }

    var median: Double { rounds.sorted()[rounds.count / 2] }

    /// The median, lowest and highest time, such as `512 ns [498..611]`.
    var text: String {
        guard let least = rounds.min(), let most = rounds.max() else { return "-" }
        let (unit, name) = median < 10_000 ? (1.0, "ns") : median < 10_000_000 ? (1e3, "us") : (1e6, "ms")
        let shown = [median, least, most].map { Self.shown($0 / unit) }
        return "\(shown[0]) \(name) [\(shown[1])..\(shown[2])]"
    }

    /// Returns the time of this measurement divided by the time of `other`, such as `1.12 [1.08..1.20]`. Only times of the same
    /// round are divided.
    func ratio(to other: RoundTimings) -> String {
        let ratios = zip(rounds, other.rounds).map { $0 / $1 }.sorted()
        guard let least = ratios.first, let most = ratios.last else { return "-" }
        let shown = [ratios[ratios.count / 2], least, most].map { ($0 * 100).rounded() / 100 }
        return "\(shown[0]) [\(shown[1])..\(shown[2])]"
    }

    private static func shown(_ value: Double) -> String {
        value < 100 ? "\((value * 10).rounded() / 10)" : "\(Int(value.rounded()))"
    }

    /// Returns the processor time of a body in nanoseconds. Other programs on the machine do not count, although they can make
    /// the body slower by filling the caches.
    static func cost(_ body: () throws -> Void) rethrows -> UInt64 {
        let start = ownTime
        try body()
        return ownTime - start
    }

    private static var ownTime: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    static func time(_ body: () throws -> Void) rethrows -> UInt64 {
        let start = MonotonicClock.nanoseconds
        try body()
        return MonotonicClock.nanoseconds - start
    }
}

func line(_ name: String, _ text: String) {
    print(name + String(repeating: " ", count: max(1, 58 - name.count)) + text)
}
