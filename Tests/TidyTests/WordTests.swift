// SPDX-License-Identifier: Apache-2.0
import Foundation
import Testing

/// Words such as "nobody" hide the subject of a sentence. In each kind of prose, 1,000 words may contain at most one of them.
@Suite("Words that hide the subject of a sentence")
struct WordTests {
    enum Prose: Hashable, CaseIterable { case comments, documents, literals }

    @Test(
        "fewer than one word in 1,000 of comments, documents and literals hides the subject of its sentence")
    func fewWordsHideTheSubjectOfTheirSentence() throws {
        let files = try Repository.files.map { (path: $0.path, counts: try Self.counts(in: $0)) }
        for kind in Prose.allCases {
            let counts = files.map { (path: $0.path, count: $0.counts[kind] ?? [0, 0]) }
            let (words, hidden) = counts.reduce((0, 0)) { ($0.0 + $1.count[0], $0.1 + $1.count[1]) }
            let worst = counts.sorted { $0.count[1] > $1.count[1] }.prefix(9).map(\.path)
            #expect(hidden * 1000 < words, "\(hidden) in \(words) words of \(kind), most in: \(worst)")
        }
    }

    @Test(
        "the check counts planted words that hide the subject",
        arguments: [
            ("A.swift", "a(\"nobody asks\") // Who comes, `who` goes.\na(\"who\")", [3, 1], [2, 1]),
            ("A.swift", "a(\"\"\"\n    \"x\" if somebody asks\n    \"\"\")\n// x", [1, 0], [4, 1]),
            ("run", "say \"$#\" # Whoever calls.\n", [2, 1], nil),
        ])
    func theCheckCountsPlantedWordsThatHideTheSubject(
        name: String, text: String, comments: [Int], literals: [Int]?
    ) throws {
        let counts = try Self.counts(in: TextFile(path: name, text: text))
        #expect(counts == [.comments: comments, .literals: literals].compactMapValues(\.self), "\(counts)")
        let document = try Self.counts(in: TextFile(path: "a.md", text: "Nobody knows. `who`, \"whom\""))
        #expect(document == [.documents: [3, 1]])
    }

    private static let hidden = Set(["who", "whoever", "somebody", "nobody"])
    private static let markers = ["swift": "//", "c": "//", "h": "//", "lua": #"(?<!\S)--"#]

    /// For each kind of prose in a file: the number of its words, and the number of words that hide a subject. Code in
    /// backticks or literals is not counted.
    static func counts(in file: TextFile) throws -> [Prose: [Int]] {
        let type = String(file.name.split(separator: ".").dropFirst().last ?? "")
        let isDocument = ["md", "txt", "scenario"].contains(type)
        let literal = #""""[\s\S]*?"""|"(?:\\.|[^"\\\n])*""#
        let pattern = isDocument ? #"[\s\S]+"# : (markers[type] ?? #"(?<!\S)#"#) + ".*|" + literal
        let (text, expression) = (NSString(string: file.text), try NSRegularExpression(pattern: pattern))
        var counts: [Prose: [Int]] = [:]
        for match in expression.matches(in: file.text, range: NSRange(0..<text.length)) {
            let piece = text.substring(with: match.range)
            let prose: Prose = isDocument ? .documents : piece.hasPrefix("\"") ? .literals : .comments
            if prose == .literals, !piece.contains(" ") { continue }
            let words = piece.replacing(/`[^`\n]*`|\\\([^()]*\)/, with: "").split {
                !$0.isASCII || !$0.isLetter
            }
            let found = [words.count, words.count { Self.hidden.contains($0.lowercased()) }]
            counts[prose] = zip(counts[prose] ?? [0, 0], found).map(+)
        }
        return counts
    }
}
