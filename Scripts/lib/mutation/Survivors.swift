// SPDX-License-Identifier: Apache-2.0

/// The list of mutants that no test can catch or needs to catch. Each line ends with the reason:
///
///     Granting.swift | Arbiter.settle(_:) | drop | effects.removeAll() | why it makes no difference
///
/// If a function contains the same text twice, the text of the second mutant ends with a number: `… | text #2 | reason`.
struct Survivors {
    struct Entry {
        let key: String
        let reason: String
        let line: Int
    }

    static let path = "Scripts/lib/mutation/survivors"
    /// The highest percentage of mutants that may survive. Reasons in the list do not raise it.
    static let mostPercent = 5.0

    private(set) var entries: [String: Entry] = [:]

    init(parsing text: String) throws {
        for (number, line) in zip(1..., text.split(separator: "\n", omittingEmptySubsequences: false))
        where !line.isEmpty && !line.hasPrefix("#") {
            guard let bar = line.range(of: " | ", options: .backwards) else {
                throw Complaint("\(Self.path):\(number): a survivor needs a reason after a last ' | '.")
            }
            let key = String(line[..<bar.lowerBound])
            guard entries[key] == nil else { throw Complaint("\(Self.path):\(number): it is listed twice.") }
            entries[key] = Entry(key: key, reason: String(line[bar.upperBound...]), line: number)
        }
    }

    /// Returns for each mutant's number the mutant's name in the list of survivors.
    static func keys(of mutants: [Mutant]) -> [Int: String] {
        var seen: [String: Int] = [:]
        var keys: [Int: String] = [:]
        for mutant in mutants {
            let count = seen[mutant.key, default: 0] + 1
            seen[mutant.key] = count
            keys[mutant.number] = count == 1 ? mutant.key : "\(mutant.key) #\(count)"
        }
        return keys
    }
}
