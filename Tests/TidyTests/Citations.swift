// SPDX-License-Identifier: Apache-2.0
import Foundation

/// The documents that texts cite: links, articles and numbered decisions. A citation that leads nowhere is a finding.
struct Citations {
    static let decisionFolder = "Sources/truce/truce.docc/Decisions/"
    /// What a maintainer reads in half a minute; the title is left out.
    static let mostDecisionWords = 120

    private let paths: Set<String>
    private let articles: Set<String>
    private let decisions: Set<Int>

    init(in files: [TextFile]) {
        paths = Set(files.map(\.path))
        articles = Set(
            files.filter { $0.path.contains(".docc/") && $0.isMarkdown }.map { String($0.name.dropLast(3)) })
        decisions = Set(files.compactMap(\.decisionNumber))
    }

    func findings(in file: TextFile) -> [Finding] {
        zip(1..., file.lines).flatMap { number, line in
            (brokenLinks(in: line, of: file) + brokenNumbers(in: line, of: file)).map {
                Finding(path: file.path, line: number, what: $0)
            }
        }
    }

    private func brokenLinks(in line: Substring, of file: TextFile) -> [String] {
        let directory = file.path.split(separator: "/").dropLast().map(String.init)
        let files = line.matches(of: /\]\(([^)#]+\.md)(#[^)]*)?\)/).map { String($0.output.1) }
        let names = line.matches(of: /<doc:([\w-]+)>/).map { String($0.output.1) }
        let broken = file.isMarkdown ? files.filter { !paths.contains(Self.path($0, from: directory)) } : []
        return broken.map { "a link to \($0), which is not there" }
            + names.filter { !articles.contains($0) }.map { "no catalog has an article \($0)" }
    }

    /// In code only comments cite: elsewhere a letter and a number may be anything.
    private func brokenNumbers(in line: Substring, of file: TextFile) -> [String] {
        let text = file.isMarkdown ? line : line.range(of: "//").map { line[$0.upperBound...] } ?? ""
        return text.matches(of: /\bD([0-9]+)\b/).map { $0.output.1 }
            .filter { !decisions.contains(Int($0) ?? 0) }.map { "there is no decision D\($0)" }
    }

    /// A decision whose file has another number, or that is too long.
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

    /// 12 of `D012-request-loop.md`.
    var decisionNumber: Int? {
        guard path.hasPrefix(Citations.decisionFolder), name.hasPrefix("D") else { return nil }
        return Int(name.dropFirst().prefix(3))
    }
}
