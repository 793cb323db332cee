// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing
import TextMerge

@Suite("Three-way merge")
struct ThreeWayMergeTests {
    private static func merge(
        _ base: String, _ ours: String, _ theirs: String, distance: Int = 1,
        limit: DifferenceLimit = DifferenceLimit()
    ) -> MergeResult {
        ThreeWayMerge.merge(
            base: Array(base.utf8), ours: Array(ours.utf8), theirs: Array(theirs.utf8), distance: distance,
            limit: limit)
    }

    private static func lines(_ words: String) -> String { words.replacing(" ", with: "\n") + "\n" }

    @Test(
        "a merge has the changes of both sides",
        arguments: [
            ("a b c d e", "A b c d e", "a b c d E", "A b c d E"),
            ("a b c d e", "a x b c d e", "a b c d y e", "a x b c d y e"),
            ("a b c d e", "a c d e", "a b c d", "a c d"),
            ("a b c", "a X c", "a X c", "a X c"),
            ("a b c d e", "a X c d Y", "a X c d e", "a X c d Y"),
            ("a b c", "a b c", "", ""),
            ("a a a", "a a a a", "a a a a", "a a a a"),
            ("", "a", "", "a"),
        ])
    func aMergeHasTheChangesOfBothSides(base: String, ours: String, theirs: String, merged: String) {
        let clean = MergeResult.clean(Array(Self.lines(merged).utf8))
        let texts = [base, ours, theirs].map(Self.lines)
        #expect(Self.merge(texts[0], texts[1], texts[2]) == clean)
        #expect(Self.merge(texts[0], texts[2], texts[1]) == clean)
    }

    @Test(
        "changes of the same lines or of adjacent lines are a conflict",
        arguments: [
            ("a b c", "a X c", "a Y c"), ("a b c", "a X c", "a b Y"), ("a b c", "a x b c", "a y b c"),
            ("a", "b", "c"),
        ])
    func changesOfTheSameLinesAreAConflict(base: String, ours: String, theirs: String) {
        #expect(Self.merge(Self.lines(base), Self.lines(ours), Self.lines(theirs)) == .conflict)
    }

    @Test("changes that are closer than the distance are a conflict", arguments: 1...5)
    func closeChangesAreAConflict(distance: Int) {
        let merged = Self.merge(
            "a\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n", distance: distance)
        #expect(merged == (distance <= 3 ? .clean(Array("A\nb\nc\nd\nE\n".utf8)) : .conflict))
    }

    @Test("line ends stay as they are, and a missing line feed at the end is a change of the last line")
    func lineEndsStay() {
        let clean = MergeResult.clean(Array("A\r\nb\nc\r\nd".utf8))
        #expect(Self.merge("a\r\nb\nc\r\nd\n", "A\r\nb\nc\r\nd\n", "a\r\nb\nc\r\nd") == clean)
        #expect(Self.merge("a\nb\nc", "a\nb\nc\nd", "a\nb\nc\ne") == .conflict)
    }

    @Test("texts are alike if they are UTF-8 and have the same line ends")
    func textsAreAlikeIfTheyHaveTheSameLineEnds() {
        let areAlike = { (texts: String...) in TextForm.areAlike(texts.map { Array($0.utf8) }) }
        #expect(areAlike("a\nb\n", "ä\n", "a", ""))
        #expect(areAlike("a\r\nb\r\n", "a\r\n", "a"))
        #expect(!areAlike("a\nb\n", "a\r\n"))
        #expect(!areAlike("a\nb\r\n"))
        #expect(!areAlike("a\0b\n"))
        #expect(!TextForm.areAlike([[0xff, 0x0a]]))
    }

    @Test("a comparison that would need too much work is refused, and different texts need little work")
    func tooMuchWorkIsRefused() {
        let numbers = (0..<30_000).map { "\($0)\n" }
        let (base, turned) = (numbers.joined(), numbers.reversed().joined())
        #expect(Self.merge(base, turned, base + "x\n") == .tooLarge)
        #expect(Self.merge(base, "x\n" + base, base + "x\n") == .clean(Array(("x\n" + base + "x\n").utf8)))
        let (first, second) = (numbers.map { "A" + $0 }.joined(), numbers.map { "B" + $0 }.joined())
        #expect(Self.merge(base, first, second) == .conflict)
        let limit = DifferenceLimit(differences: 1, comparisons: 1_000)
        #expect(Self.merge("a\nb\nc\n", "b\na\nc\n", "a\nb\nC\n", limit: limit) == .tooLarge)
    }
}

/// Compares merges of random texts with merges by git.
@Suite("Merges as git makes them")
struct GitMergeTests {
    private struct Triple {
        let base: [UInt8]
        let ours: [UInt8]
        let theirs: [UInt8]
    }

    /// Pseudo-random numbers that are the same for the same seed.
    private struct Chance: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return (state ^ (state >> 29)) &* 0xbf58_476d_1ce4_e5b9
        }
    }

    /// A text of a few words, so that many lines are equal.
    private static func triple(_ chance: inout Chance) -> Triple {
        let words = Int.random(in: 3...60, using: &chance)
        func word() -> String { "w\(Int.random(in: 0..<words, using: &chance))" }
        let base = (0..<Int.random(in: 0...40, using: &chance)).map { _ in word() }
        func changed() -> [UInt8] {
            var lines = base
            for _ in 0..<Int.random(in: 0...3, using: &chance) {
                let place = Int.random(in: 0...lines.count, using: &chance)
                let removed = Int.random(in: 0...min(3, lines.count - place), using: &chance)
                let added = (0..<Int.random(in: 0...3, using: &chance)).map { _ in word() }
                lines.replaceSubrange(place..<place + removed, with: added)
            }
            return bytes(lines)
        }
        return Triple(base: bytes(base), ours: changed(), theirs: changed())
    }

    private static func bytes(_ lines: [String]) -> [UInt8] { lines.flatMap { Array(($0 + "\n").utf8) } }

    private static let directory = FileManager.default.temporaryDirectory

    /// The results of git for all triples; nil is a conflict.
    private static func mergeByGit(_ triples: [Triple], in directory: URL) throws -> [[UInt8]?] {
        for (number, triple) in triples.enumerated() {
            for (name, bytes) in [("base", triple.base), ("ours", triple.ours), ("theirs", triple.theirs)] {
                try Data(bytes).write(to: directory.appending(path: "\(number).\(name)"))
            }
        }
        try Script(
            """
            for ((i = 0; i < $1; i++)); do
                git merge-file --quiet --stdout $i.ours $i.base $i.theirs >$i.merged || rm $i.merged
            done
            """
        ).run(String(triples.count), at: directory.path)
        return triples.indices.map { number in
            FileManager.default.contents(atPath: directory.appending(path: "\(number).merged").path).map(
                Array.init)
        }
    }

    @Test("a merge of random texts has the same result as a merge by git, but for a few adjacent changes")
    func aMergeHasTheSameResultAsAMergeByGit() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("GitMergeTests: seed \(seed)")
        var chance = Chance(state: seed)
        let triples = (0..<(Lab.isLong ? 2_000 : 600)).map { _ in Self.triple(&chance) }
        let directory = FileManager.default.temporaryDirectory.appending(path: "merges-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        defer { #expect(throws: Never.self) { try FileManager.default.removeItem(at: directory) } }
        var (clean, conflicts, other, different) = (0, 0, 0, 0)
        for (triple, expected) in zip(triples, try Self.mergeByGit(triples, in: directory)) {
            switch (
                ThreeWayMerge.merge(base: triple.base, ours: triple.ours, theirs: triple.theirs), expected
            ) {
            case (.clean(let merged), let expected?):
                clean += 1
                different += merged == expected ? 0 : 1
            case (.conflict, nil): conflicts += 1
            default: other += 1
            }
        }
        print(
            "GitMergeTests: \(clean) clean, \(conflicts) conflicts, \(other) otherwise, \(different) different"
        )
        #expect(different * 200 <= clean, "seed \(seed)")
        // Among equal lines, there are several shortest differences, and git prefers others.
        #expect(other * 50 <= triples.count, "seed \(seed)")
    }
}
