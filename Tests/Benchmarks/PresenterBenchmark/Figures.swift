// SPDX-License-Identifier: Apache-2.0

/// The median and other quantiles of some times, in nanoseconds.
struct Quantiles: Codable {
    var p50: UInt64
    var p99: UInt64

    init(of times: [UInt64]) {
        let sorted = times.sorted()
        p50 = sorted[sorted.count / 2]
        // Of a hundred reads, one takes longer than this time.
        p99 = sorted[max(0, (sorted.count * 99 + 99) / 100 - 1)]
    }
}

/// The results of one round of a workload.
struct Round: Codable {
    var bare: Quantiles
    var coordinated: Quantiles
}

/// The table of results, in Markdown.
struct Table {
    private static var quantiles: [(name: String, path: KeyPath<Quantiles, UInt64>)] {
        [("p50", \.p50), ("p99", \.p99)]
    }

    static func text(_ rounds: [(world: Workload, rounds: [Round])]) -> String {
        var lines = ["| presenters | | bare | coordinated | ratio |", "|---|---|---|---|---|"]
        for (world, rounds) in rounds where !rounds.isEmpty {
            for (index, (name, path)) in quantiles.enumerated() {
                let bare = rounds.map { Double($0.bare[keyPath: path]) }
                let coordinated = rounds.map { Double($0.coordinated[keyPath: path]) }
                let ratios = zip(coordinated, bare).map { $0 / $1 }
                let cells = [
                    index == 0 ? world.title : "", name, shownTime(quartiles(bare).median),
                    shownTime(quartiles(coordinated).median), shownRatio(ratios),
                ]
                lines.append("| \(cells.joined(separator: " | ")) |")
            }
        }
        return lines.joined(separator: "\n")
    }

    private static func shownRatio(_ ratios: [Double]) -> String {
        let (low, median, high) = quartiles(ratios)
        return "\(rounded(median)) [\(rounded(low))..\(rounded(high))]"
    }

    private static func shownTime(_ nanoseconds: Double) -> String {
        nanoseconds < 1e6 ? "\(Int((nanoseconds / 1e3).rounded())) µs" : "\(rounded(nanoseconds / 1e6)) ms"
    }

    private static func rounded(_ value: Double) -> Double { (value * 100).rounded() / 100 }

    /// Returns the median and the quartiles of the values. A quartile that lies between two values is interpolated.
    private static func quartiles(_ values: [Double]) -> (low: Double, median: Double, high: Double) {
        let sorted = values.sorted()
        func value(at part: Double) -> Double {
            let position = part * Double(sorted.count - 1)
            let (low, high) = (Int(position.rounded(.down)), Int(position.rounded(.up)))
            return sorted[low] + (sorted[high] - sorted[low]) * (position - Double(low))
        }
        return (value(at: 0.25), value(at: 0.5), value(at: 0.75))
    }
}
