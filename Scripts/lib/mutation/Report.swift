// SPDX-License-Identifier: Apache-2.0
import Foundation

/// Prints the last lines of the script, and determines whether the run has succeeded.
struct Report {
    let chosen: [Mutant]
    let verdicts: [Int: Hunt.Verdict]
    let keys: [Int: String]
    let survivors: Survivors
    /// Whether the long stages did not run. Then it is possible that these stages would catch some of the surviving mutants.
    let isQuick: Bool
    private(set) var complaints: [String] = []

    private var caught: [String: Int] = [:]
    private var survived = 0

    init(
        chosen: [Mutant], verdicts: [Int: Hunt.Verdict], keys: [Int: String], survivors: Survivors,
        isQuick: Bool
    ) {
        (self.chosen, self.verdicts, self.keys, self.survivors) = (chosen, verdicts, keys, survivors)
        self.isQuick = isQuick
    }

    mutating func complain(_ text: String) { complaints.append(text) }

    mutating func printList() {
        print("")
        for mutant in chosen { printVerdict(on: mutant) }
    }

    private mutating func printVerdict(on mutant: Mutant) {
        guard let verdict = verdicts[mutant.number], let key = keys[mutant.number] else { return }
        let text = mutant.text.count > 90 ? mutant.text.prefix(87) + "..." : mutant.text[...]
        let what = "\(mutant.file):\(mutant.line)  \(mutant.function)  `\(text)` \(mutant.change)"
        let entry = survivors.entries[key]
        switch verdict {
        case .caught(let failure):
            print("caught    \(what)\n            by \(failure.description)")
            count(failure)
            if let entry {
                complaints.append("\(Survivors.path):\(entry.line): this is caught by now: strike it out.")
            }
        case .survived:
            survived += 1
            if let entry {
                print("survived  \(what)\n            \(entry.reason)")
            } else {
                print("\(isQuick ? "left    " : "SURVIVED")  \(what)\n            unlisted: \(key)")
                if isQuick { break }
                complaints.append(
                    "\(mutant.file):\(mutant.line): this survives and no reason is listed: \(key)")
            }
        }
    }

    private mutating func count(_ failure: Failure) {
        let by =
            switch failure.how {
            case .hang: "hangs"
            case .crash(let message): message.hasPrefix("invariant") ? "invariants" : "crashes"
            case .issue: String(failure.test.prefix { $0 != "." })
            }
        caught[by, default: 0] += 1
    }

    /// Prints the result. Returns whether the run has no complaints.
    mutating func conclude() -> Bool {
        let percent = 100 * Double(survived) / Double(max(1, chosen.count))
        if percent > Survivors.mostPercent, !isQuick {
            complaints.append(
                String(format: "%.1f %% survive, more than %.0f %%.", percent, Survivors.mostPercent))
        }
        print("\nCaught by:")
        for (by, number) in caught.sorted(by: { ($0.value, $1.key) > ($1.value, $0.key) }) {
            print(String(format: "  %5d  ", number) + by)
        }
        if !complaints.isEmpty { print("\nWrong:\n" + complaints.map { "  " + $0 }.joined(separator: "\n")) }
        print(
            "\n\(chosen.count) mutants, \(caught.values.reduce(0, +)) caught as they should be, "
                + String(format: "%d %@ (%.1f %%).", survived, isQuick ? "are left" : "survived", percent))
        return complaints.isEmpty
    }
}
