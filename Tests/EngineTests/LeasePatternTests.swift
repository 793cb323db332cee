// SPDX-License-Identifier: Apache-2.0
import Coordination
import Testing

/// The globs of a run's leases: which paths match, and which patterns overlap.
@Suite("Patterns of leases")
struct LeasePatternTests {
    @Test(
        "a pattern matches a path or not",
        arguments: [
            ("a.md", "a.md", true), ("a.md", "b.md", false), ("*.md", "a.md", true),
            ("*.md", "d/a.md", false),
            ("*", ".hidden", true), ("a?c", "abc", true), ("a?c", "a/c", false),
            ("**", "a", true), ("**", "a/b/c", true), ("**", "", false),
            ("d/**", "d/a", true), ("d/**", "d/a/b", true), ("d/**", "d", false), ("d/**", "e/a", false),
            ("**/a", "a", true), ("**/a", "x/y/a", true), ("**/a", "xa", false), ("s/**/t", "s/t", true),
            ("s/**/t", "s/x/y/t", true), ("s/**/t", "st", false),
            ("[a-c]x", "bx", true), ("[a-c]x", "dx", false), ("[!a-c]x", "dx", true), ("[!a]x", "/x", false),
            ("[]]x", "]x", true), ("\\*", "*", true), ("\\*", "a", false), ("é*", "éa", true),
        ])
    func aPatternMatches(text: String, path: String, isMatch: Bool) throws {
        #expect(try LeasePattern(text).matches(Array(path.utf8)) == isMatch)
    }

    @Test(
        "a wrong pattern is refused with a reason",
        arguments: [
            ("", "is empty"), ("a//b", "an empty part"), ("/a", "an empty part"), ("a/", "an empty part"),
            ("../a", "'..'"), ("a/./b", "'.'"), ("a**", "'**' beside"), ("**a", "'**' beside"),
            ("[a", "without ']'"), ("[", "without ']'"), ("[c-a]", "ends before it begins"),
            ("a\\", "a backslash"),
            ("a\0", "a zero byte"), (String(repeating: "a", count: 1025), "more than 1024"),
        ])
    func aWrongPatternIsRefused(text: String, reason: String) {
        let problem = #expect(throws: LeasePattern.Problem.self) { try LeasePattern(text) }
        #expect(problem?.message.contains(reason) ?? false, "\(problem?.message ?? "")")
    }

    @Test(
        "two patterns overlap if a path matches both",
        arguments: [
            ("a", "a", true), ("a", "b", false), ("*.md", "a.*", true), ("*.md", "*.txt", false),
            ("src/**", "src/a/b.c", true), ("src/**", "doc/**", false), ("**/a", "b/**", true),
            ("**", "x", true),
            ("[a-c]", "[c-e]", true), ("[a-c]", "[d-e]", false), ("a/*", "a/*/b", false),
            ("a/**/z", "a/z", true),
            ("*a", "b*", true), ("?", "??", false),
        ])
    func twoPatternsOverlap(one: String, other: String, doOverlap: Bool) throws {
        let (one, other) = (try LeasePattern(one), try LeasePattern(other))
        #expect(one.overlaps(other) == doOverlap)
        #expect(other.overlaps(one) == doOverlap)
        #expect(!Lease(one, isWrite: false).conflicts(with: Lease(other, isWrite: false)))
        #expect(Lease(one, isWrite: true).conflicts(with: Lease(other, isWrite: false)) == doOverlap)
    }

    @Test("an overlap is found exactly if one of many short paths matches both patterns")
    func overlapsAgreeWithMatches() throws {
        let texts = ["a", "*", "**", "a*", "*b", "a/**", "**/b", "?", "[ab]", "a/*", "**/a/b", "*/*"]
        let letters = Array("ab/".utf8)
        var paths: [[UInt8]] = [[]]
        for _ in 0..<4 { paths += paths.flatMap { path in letters.map { path + [$0] } } }
        let proper = Set(paths).filter { path in
            !path.isEmpty
                && !path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).contains {
                    $0.isEmpty
                }
        }
        for one in texts {
            for other in texts {
                let (first, second) = (try LeasePattern(one), try LeasePattern(other))
                let isMet = proper.contains { first.matches($0) && second.matches($0) }
                #expect(first.overlaps(second) == isMet, "\(one) and \(other)")
            }
        }
    }

    @Test("a lease covers a directory that is deleted or moved if names below it can match")
    func aLeaseCoversADirectoryAboveItsPaths() throws {
        let lease = Lease(try LeasePattern("a/b/*.md"), isWrite: true)
        #expect(lease.covers(Array("a".utf8), .write(.forMoving)))
        #expect(lease.covers(Array("a/b".utf8), .write(.forDeleting)))
        #expect(!lease.covers(Array("a/c".utf8), .write(.forMoving)))
        #expect(!lease.covers(Array("a".utf8), .read()))
        #expect(lease.covers(Array("a/b/x.md".utf8), .read()))
        let reading = Lease(lease.pattern, isWrite: false)
        #expect(!reading.covers(Array("a/b/x.md".utf8), .read()))
        #expect(reading.covers(Array("a/b/x.md".utf8), .write(.updating)))
    }
}
