// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// Checks that code and tests cite each rule.
@Suite("Rules")
struct RuleCitationTests {
    private static let root = String(
        #filePath.dropLast("Tests/ArbitrationTests/RuleCitationTests.swift".count))
    static let numbers = defined(in: readFile(root + "Sources/Arbitration/Arbitration.docc/Rules.md") ?? "")
    private static let code = cited(below: "Sources/Arbitration", extensions: ["swift"])
    private static let tests = cited(below: "Tests/ArbitrationTests", extensions: ["swift", "scenario"])

    @Test func theRulesAreFound() { #expect(Self.numbers.count > 25) }

    @Test("is cited by code and by tests", arguments: numbers)
    func ruleIsCited(number: String) {
        #expect(Self.code.contains(number), "no code cites \(number)")
        #expect(Self.tests.contains(number), "no test cites \(number)")
    }

    @Test func nothingElseIsCited() {
        let unknown = Self.code.union(Self.tests).subtracting(Self.numbers)
        #expect(unknown.isEmpty)
    }

    /// Checks that each mutation still matches its source; `Scripts/mutate` itself is too slow for every run.
    @Test func eachMutationByHandHasItsPlace() throws {
        let list = try #require(readFile(Self.root + "Scripts/lib/mutation/by-rule"))
        var mutated: Set<String> = []
        for entry in list.split(separator: "\n\n") {
            let lines = entry.split(separator: "\n").filter { !$0.hasPrefix("#") }
            let words = { (mark: String) in
                lines.filter { $0.hasPrefix(mark) }.map { Self.trimmed($0.dropFirst(mark.count)) }
            }
            guard let rule = words("rule ").first, let file = words("file ").first else { continue }
            mutated.insert(rule)
            let source = readFile(Self.root + "Sources/Arbitration/" + file) ?? ""
            let code = source.split(separator: "\n", omittingEmptySubsequences: false).map(Self.trimmed)
            let text = words("-").joined(separator: "\n")
            let places = code.joined(separator: "\n").split(separator: text, omittingEmptySubsequences: false)
            #expect(places.count == 2, "'\(text)' of \(rule) is \(places.count - 1) times in \(file)")
        }
        #expect(
            mutated.isSuperset(of: Self.numbers), "\(Set(Self.numbers).subtracting(mutated)) are never broken"
        )
    }

    private static func trimmed(_ line: Substring) -> String { String(line.drop { $0 == " " }) }

    /// The numbers at the start of list items, as in `- **G1** …`.
    private static func defined(in text: String) -> [String] {
        text.split(separator: "\n").compactMap { line in
            guard line.hasPrefix("- **"), let end = line.dropFirst(4).firstIndex(of: "*") else { return nil }
            let number = String(line.dropFirst(4)[..<end])
            return isNumber(number) ? number : nil
        }
    }

    private static func cited(below directory: String, extensions: [String]) -> Set<String> {
        var found: Set<String> = []
        for suffix in extensions {
            for path in files(below: root + directory, extension: suffix)
            where !path.hasSuffix("RuleCitationTests.swift") {
                let words = withoutSources(readFile(path) ?? "").split { !$0.isLetter && !$0.isNumber }
                found.formUnion(words.map(String.init).filter(isNumber))
            }
        }
        return found
    }

    /// The text without brackets: `[S2]` beside a scenario's number is a publication, not a rule.
    private static func withoutSources(_ text: String) -> String {
        text.split(separator: "\n").map { line in
            guard line.hasPrefix("#") else { return String(line) }
            var isSource = false
            return String(
                line.filter { character in
                    if character == "[" { isSource = true }
                    defer { if character == "]" { isSource = false } }
                    return !isSource
                })
        }.joined(separator: "\n")
    }

    private static func isNumber(_ word: String) -> Bool {
        guard let letter = word.first, "GQXYSBDPNRTI".contains(letter) else { return false }
        return word.count > 1 && word.dropFirst().allSatisfy(\.isNumber)
    }
}
