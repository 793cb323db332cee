// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

@Suite struct PathGlobTests {
    private func matches(_ pattern: String, _ path: String) throws -> Bool {
        try PathGlob(pattern).matches(Array(path.utf8))
    }

    @Test(
        "A pattern fits the same paths as in gitignore(5)",
        arguments: [
            ("*.md", ["a.md", "b/c/a.md", ".md", "a.md/below"], ["a.mdx", "md", "a.m/d"]),
            ("notes", ["notes", "a/notes", "notes/a", "a/notes/b/c"], ["note", "notes2", "a/notesb"]),
            ("/notes", ["notes", "notes/a"], ["a/notes"]),
            ("a/b", ["a/b", "a/b/c"], ["x/a/b", "a/bc", "a"]),
            ("docs/", ["docs/a", "x/docs/a/b"], ["docs", "x/docs"]),
            ("/docs/", ["docs/a"], ["docs", "x/docs/a"]),
            ("a/**", ["a/b", "a/b/c"], ["a", "x/a/b"]),
            ("**/a", ["a", "x/a", "x/y/a/b"], ["xa"]),
            ("a/**/b", ["a/b", "a/x/b", "a/x/y/b", "a/b/x"], ["a", "ab", "x/a/b"]),
            ("a/*/b", ["a/x/b"], ["a/b", "a/x/y/b"]),
            ("**/x/**/y", ["x/y", "a/x/b/y", "x/x/y"], ["y/x", "x"]),
            ("**", ["a", "a/b"], []), ("*", ["a", "a/b"], []),
            ("a?c", ["abc", "aäc", "a€c", "a😀c"], ["ac", "abbc"]),
            ("a[b-d]e", ["abe", "ade"], ["aee", "ae"]), ("a[!b]e", ["ace", "aäe"], ["abe"]),
            ("a[]]e", ["a]e"], ["ae"]), ("a[b-]e", ["a-e", "abe"], ["ace"]),
            ("\\*", ["*"], ["a"]), ("a\\?", ["a?"], ["ab"]),
            ("*a*b*c", ["abc", "xaxbxc", "abcabc", "aabbcc"], ["abca", "acb"]),
            ("ä*", ["ä", "äb"], ["a"]),
        ])
    func aPatternFitsTheSamePathsAsInGitignore(pattern: String, fits: [String], others: [String]) throws {
        for path in fits { #expect(try matches(pattern, path), "\(pattern) fits \(path)") }
        for path in others { #expect(try !matches(pattern, path), "\(pattern) does not fit \(path)") }
    }

    @Test("A pattern that could be tried in many ways is compared quickly")
    func aPatternWithManyWildcardsIsComparedQuickly() throws {
        let pattern = String(repeating: "**/a*a*/", count: 60) + "b"
        let path = Array(repeating: String(repeating: "a", count: 60), count: 60).joined(separator: "/")
        let glob = try PathGlob(pattern)
        let time = ContinuousClock().measure { #expect(!glob.matches(Array(path.utf8))) }
        #expect(time < .seconds(1))
    }

    @Test(
        "The error for an invalid pattern names its fault",
        arguments: [
            ("", .empty), ("/", .empty), ("!a", .negation), ("a//b", .emptyPart),
            ("a/../b", .parentDirectory),
            ("./a", .parentDirectory), ("a**", .doubleStar), ("**a", .doubleStar), ("[a", .openBracket),
            ("[]", .openBracket),
            ("[ä]", .wideBracket), ("a\\", .openEscape), ("a\u{7}", .controlCharacter),
            (String(repeating: "a", count: PathGlob.longest + 1), .tooLong),
        ] as [(String, PathGlob.Fault)])
    func theErrorForAnInvalidPatternNamesItsFault(pattern: String, fault: PathGlob.Fault) {
        #expect(throws: fault) { try PathGlob(pattern) }
    }
}
