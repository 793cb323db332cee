// SPDX-License-Identifier: Apache-2.0
import Foundation

/// Finds each citation of a link, article, decision, rule or situation that does not exist.
struct Citations {
    static let decisionFolder = "Sources/truce/truce.docc/Decisions/"
    static let ruleFolder = "Sources/Arbitration/Arbitration.docc/"
    static let situationArticle = "Situations.md"
    /// The largest number of words in a decision, without the title. A maintainer reads 120 words in half a minute.
    static let mostDecisionWords = 120

    private let paths: Set<String>
    private let articles: Set<String>
    private let decisions: Set<Int>
    /// The numbers of rules and situations, such as P4 and H12 of `- **P4** …` and `| **H12** | …` in an article.
    private let rules: Set<String>
    private let situations: Set<String>
    private let scenarios: Set<String>
    /// The code in Sources without its comments, with the paths of its files.
    private let code: String

    init(in files: [TextFile]) {
        paths = Set(files.map(\.path))
        articles = Set(
            files.filter { $0.path.contains(".docc/") && $0.isMarkdown }.map { String($0.name.dropLast(3)) })
        decisions = Set(files.compactMap(\.decisionNumber))
        rules = Self.entries(of: files.filter { $0.path.hasPrefix(Self.ruleFolder) })
        situations = Self.entries(of: files.filter { $0.name == Self.situationArticle })
        scenarios = Set(files.filter(\.isScenario).map { String($0.name.dropLast(".scenario".count)) })
        let sources = files.filter { $0.isBelow("Sources") && $0.language == .swift }
        code = sources.flatMap { [$0.path[...]] + $0.lines.filter { !$0.has("///") } }.joined(separator: "\n")
    }

    private static func entries(of files: [TextFile]) -> Set<String> {
        Set(
            files.flatMap(\.lines).flatMap {
                $0.matches(of: /^(?:- |\| )\*\*([A-Z][0-9]+)\*\*/).map { String($0.output.1) }
            })
    }

    func findings(in file: TextFile) -> [Finding] {
        zip(1..., file.lines).flatMap { number, line in
            (brokenLinks(in: line, of: file) + brokenNumbers(in: line, of: file)
                + missingScenarios(in: line, of: file) + missingSymbols(in: line, of: file))
                .map { Finding(path: file.path, line: number, what: $0) }
        }
    }

    private func brokenLinks(in line: Substring, of file: TextFile) -> [String] {
        guard line.has("](") || line.has("<doc:") else { return [] }
        let directory = file.path.split(separator: "/").dropLast().map(String.init)
        let files = line.matches(of: /\]\(([^)#:]+\.(?:md|swift|svg))(#[^)]*)?\)/).map { String($0.output.1) }
        let names = line.matches(of: /<doc:([\w-]+)>/).map { String($0.output.1) }
        let broken = file.isMarkdown ? files.filter { !paths.contains(Self.path($0, from: directory)) } : []
        return broken.map { "a link to \($0), which is not there" }
            + names.filter { !articles.contains($0) }.map { "no catalog has an article \($0)" }
    }

    /// The rule and situation numbers in a line that no article defines. In code only comments are searched, because a letter
    /// with a number may be anything.
    private func brokenNumbers(in line: Substring, of file: TextFile) -> [String] {
        let isProse = file.isMarkdown || file.isScenario
        guard isProse || line.has("//") else { return [] }
        let text = isProse ? line : line.range(of: "//").map { line[$0.upperBound...] } ?? ""
        guard text.utf8.contains(where: { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }) else { return [] }
        // `[H-FC11]` behind the number of a situation names its source, so it is removed.
        let plain = String(text).replacing(#/ \[[^\]]*\]/#, with: "")
        let unknownDecisions = plain.matches(of: /\bD([0-9]+)\b/).map { $0.output.1 }
            .filter { !decisions.contains(Int($0) ?? 0) }
        return unknownDecisions.map { "there is no decision D\($0)" }
            + Self.numbers(cited: /\b[Rr]ules? ((?:[A-Z][0-9]+(?:, and |, | and | to )?)+)/, in: plain)
            .filter { !rules.contains($0) }.map { "there is no rule \($0)" }
            + Self.numbers(cited: /\b[Ss]ituations? ((?:[A-Z][0-9]+(?:, and |, | and | to )?)+)/, in: plain)
            .filter { !situations.contains($0) }.map { "there is no situation \($0)" }
    }

    private static func numbers(cited list: Regex<(Substring, Substring)>, in text: String) -> [String] {
        text.matches(of: list).flatMap { $0.output.1.matches(of: /[A-Z][0-9]+/).map { String($0.output) } }
    }

    /// The article of situations lists the scenarios that show each situation. Returns the listed scenarios that have no file.
    private func missingScenarios(in line: Substring, of file: TextFile) -> [String] {
        guard file.name == Self.situationArticle else { return [] }
        return line.matches(of: /`([A-Z][0-9]+-[a-z0-9-]+)`/).map { String($0.output.1) }
            .filter { !scenarios.contains($0) }.map { "there is no scenario \($0)" }
    }

    /// The names in double backticks in an article, such as ``FairWorkQueue`` or ``Party/works(for:)``, that no code declares.
    private func missingSymbols(in line: Substring, of file: TextFile) -> [String] {
        guard file.isMarkdown, line.contains("``") else { return [] }
        return line.matches(of: /``([^`]+)``/).map { $0.output.1 }
            .filter { symbol in
                !symbol.split(separator: "/").allSatisfy {
                    code.has($0.prefix { $0.isLetter || $0.isNumber })
                }
            }
            .map { "no code has \($0)" }
    }

    /// Finds a decision whose file name has a different number, and a decision with too many words.
    static func findings(inDecision file: TextFile) -> [Finding] {
        guard file.path.hasPrefix(decisionFolder) else { return [] }
        let title = file.lines[0]
        let words = file.lines.dropFirst().joined(separator: " ").split(separator: " ").count
        let isNumbered = title.hasPrefix("# D\(file.decisionNumber ?? 0): ")
        return
            (isNumbered
            ? [] : [Finding(path: file.path, line: 1, what: "a title without the number of the file")])
            + (words <= mostDecisionWords ? [] : [Finding(path: file.path, line: 1, what: "\(words) words")])
    }

    private static func path(_ link: String, from directory: [String]) -> String {
        var parts = directory
        for part in link.split(separator: "/").map(String.init) {
            if part == ".." { parts = parts.dropLast() } else { parts.append(part) }
        }
        return parts.joined(separator: "/")
    }
}

extension TextFile {
    var isMarkdown: Bool { name.hasSuffix(".md") }
    var isScenario: Bool { name.hasSuffix(".scenario") }

    /// The number of a decision's file, such as 12 of `D012-request-loop.md`. Nil for other files.
    var decisionNumber: Int? {
        guard path.hasPrefix(Citations.decisionFolder), name.hasPrefix("D") else { return nil }
        return Int(name.dropFirst().prefix(3))
    }
}
