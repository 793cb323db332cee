// SPDX-License-Identifier: Apache-2.0
import Foundation

/// Which rules a test cites: a scenario in its comments, a test of Swift in its comments, its text or its argument.
final class Citations: @unchecked Sendable {
    // @unchecked: the lock guards the cache; the rest does not change.
    let rules: Set<String>
    private let tests: String
    private let lock = NSLock()
    private var cache: [String: Set<String>] = [:]

    init(rules: [String], tests: String) {
        self.rules = Set(rules)
        self.tests = tests
    }

    /// The numbers that begin a list item, as in `- **G1** …`.
    static func rules(in text: String) -> [String] {
        text.split(separator: "\n").compactMap { line in
            guard line.hasPrefix("- **"), let end = line.dropFirst(4).firstIndex(of: "*") else { return nil }
            let number = line.dropFirst(4)[..<end]
            let isNumber = number.first?.isUppercase ?? false && number.dropFirst().allSatisfy(\.isNumber)
            return isNumber && number.count > 1 ? String(number) : nil
        }
    }

    func rules(of test: String, argument: String?, at location: (file: String, line: Int)?) -> Set<String> {
        lock.lock()
        defer { lock.unlock() }
        let key = "\(test) \(argument ?? "")"
        if let known = cache[key] { return known }
        var text = argument ?? ""
        if let argument, test.hasPrefix("ScenarioTests.") {
            text += comments(ofScenario: argument)
        } else if let location {
            text += source(of: location)
        }
        let found = Set(text.split { !$0.isLetter && !$0.isNumber }.map(String.init)).intersection(rules)
        cache[key] = found
        return found
    }

    /// What is in brackets is a publication: `[S2]` beside a scenario's number is no rule.
    private func comments(ofScenario name: String) -> String {
        let data = FileManager.default.contents(atPath: tests + "/Scenarios/\(name).scenario") ?? Data()
        let lines = String(decoding: data, as: UTF8.self).split(separator: "\n")
        let comments = lines.filter { $0.hasPrefix("#") }.joined(separator: "\n")
        return comments.replacing(#/\[[^\]]*\]/#, with: "")
    }

    /// A test from the comment above it to the brace that ends it.
    private func source(of location: (file: String, line: Int)) -> String {
        let data = FileManager.default.contents(atPath: location.file) ?? Data()
        let lines = String(decoding: data, as: UTF8.self)
            .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        var first = location.line - 1
        guard lines.indices.contains(first) else { return "" }
        let indentation = String(lines[first].prefix { $0 == " " })
        while first > 0, lines[first - 1].hasPrefix(indentation + "//") { first -= 1 }
        let last =
            lines[first...].firstIndex { $0 == indentation + "}" } ?? lines.index(before: lines.endIndex)
        return lines[first...last].joined(separator: "\n")
    }
}
