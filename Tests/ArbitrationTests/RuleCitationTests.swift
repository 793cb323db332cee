// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// Checks that each rule of the arbiter is cited both in the code and in a test.
@Suite("Citations of the arbiter's rules")
struct RuleCitationTests {
    private static let root = String(
        #filePath.dropLast("Tests/ArbitrationTests/RuleCitationTests.swift".count))
    static let numbers = files(below: root + "Sources/Arbitration/Arbitration.docc", extension: "md")
        .flatMap { defined(in: readFile($0) ?? "") }
    private static let code = cited(below: "Sources/Arbitration", extensions: ["swift"])
    private static let tests = cited(below: "Tests/ArbitrationTests", extensions: ["swift", "scenario"])

    @Test func theDocumentsDefineMoreThan25RulesOfTheArbiter() { #expect(Self.numbers.count > 25) }

    @Test("the code and a test cite each rule", arguments: numbers)
    func theCodeAndATestCiteEachRuleOfTheArbiter(number: String) {
        #expect(Self.code.contains(number), "no code cites \(number)")
        #expect(Self.tests.contains(number), "no test cites \(number)")
    }

    @Test func theDocumentsDefineEachRuleThatCodeOrTestsCite() {
        let unknown = Self.code.union(Self.tests).subtracting(Self.numbers)
        #expect(unknown.isEmpty)
    }

    /// The rule numbers at the start of list items, as in `- **G1** …`.
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

    /// The text without its parts in brackets: `[S2]` beside a scenario's number names a publication, not a rule.
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
