// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// Checks that scenario files show the situations and pitfalls of file coordination, which are numbered (<doc:Situations>).
///
/// A comment in a scenario file cites the situations that the file shows, with their sources: `Situations H8 [H-FC11], F19`.
@Suite("Situations and pitfalls of file coordination")
struct ConformanceTests {
    /// The situations that are outside the scope of the arbiter, each with the reason.
    static let elsewhere = table(
        """
        | 20 | a purpose that is set twice is an error of the library, which the arbiter never hears of |
        | 24 | to make an archive of a directory, and to remove it, takes a file system |
        | 58 | versions are the version store's, and their messages come with it |
        | 59 | versions are the version store's, and their messages come with it |
        | 60 | versions are the version store's, and their messages come with it |
        | 64 | the arbiter sees no URLs; the library refuses those that are no files |
        | 65 | the arbiter lives and dies with the daemon; its clients notice that it is gone |
        | 66 | when a document is dirty its class decides, in the library |
        | 67 | to revert, or to keep both sides, its class decides as well |
        | 70 | a matter of speed, which benchmarks show |
        """)
    static let scenarios = 1...70
    /// The numbers of the pitfalls that an arbiter can avoid.
    static let pitfalls = [1, 2, 3, 5, 10, 11, 12, 15, 16, 17, 18, 19, 20, 21, 25, 26]

    @Test(
        "a scenario file shows each situation, or a table gives the reason why no scenario file can show it",
        arguments: scenarios)
    func aScenarioFileShowsEachSituationOrATableExcludesIt(number: Int) {
        let isShown = Self.cited("H").contains(number)
        if let reason = Self.elsewhere[number] {
            #expect(!isShown, "scenario \(number) is shown, and so there is no reason: \(reason)")
        } else {
            #expect(isShown, "no file shows scenario \(number)")
        }
    }

    @Test("a scenario file shows each known pitfall that concerns an arbiter", arguments: pitfalls)
    func aScenarioFileShowsEachPitfall(number: Int) {
        #expect(Self.cited("F").contains(number), "no file shows pitfall \(number)")
    }

    @Test("scenario files cite no situation with an unknown number")
    func scenarioFilesCiteOnlySituationsThatExist() {
        let unknown = Self.cited("H").subtracting(Self.scenarios)
        #expect(unknown.isEmpty)
        let shown = Self.cited("H").count
        print(
            "scenarios: \(shown) shown by \(ScenarioTests.names.count) files, \(Self.elsewhere.count) elsewhere"
        )
    }

    @Test("each citation of a situation is followed by its publication in brackets")
    func eachCitedSituationNamesItsPublication() {
        for (name, comment) in Self.comments {
            for word in Self.words(of: comment) where Self.number(word, "H") != nil {
                let parts = comment.split(separator: word, maxSplits: 1)
                #expect(parts.last?.hasPrefix(" [") ?? false, "\(name): \(word) has no source")
            }
        }
    }

    /// The comment lines of all scenario files, each with the name of its file.
    private static let comments: [(name: String, text: String)] = ScenarioTests.names.flatMap { name in
        let text = readFile("\(ScenarioTests.directory)/\(name).scenario") ?? ""
        return text.split(separator: "\n").filter { $0.hasPrefix("#") }.map { (name, String($0)) }
    }

    private static func cited(_ letter: Character) -> Set<Int> {
        Set(comments.flatMap { words(of: $0.text).compactMap { number($0, letter) } })
    }

    private static func words(of text: String) -> [Substring] {
        text.split { !$0.isLetter && !$0.isNumber }
    }

    private static func number(_ word: Substring, _ letter: Character) -> Int? {
        word.first == letter ? Int(word.dropFirst()) : nil
    }

    private static func table(_ text: String) -> [Int: String] {
        var rows: [Int: String] = [:]
        for line in text.split(separator: "\n") {
            let cells = line.split(separator: "|").map { $0.drop { $0 == " " } }
            guard let number = cells.first.flatMap({ Int($0.filter(\.isNumber)) }) else { continue }
            rows[number] = String(cells[1])
        }
        return rows
    }
}
