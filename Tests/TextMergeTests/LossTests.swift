// SPDX-License-Identifier: Apache-2.0
import Testing
import TextMerge

@Suite("Loss by a replacement")
struct LossTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let base: String?
        let replaced: String
        let result: String
        let isLoss: Bool

        init(_ base: String?, _ replaced: String, _ result: String, isLoss: Bool) {
            (self.base, self.replaced, self.result, self.isLoss) = (base, replaced, result, isLoss)
        }

        var testDescription: String { "\(base ?? "unknown") → \(replaced) → \(result)" }
    }

    static let cases = [
        // The same contents, or contents that grew.
        Case("a b c", "a b c d", "a b c d", isLoss: false),
        Case(nil, "a b", "a b", isLoss: false),
        Case(nil, "a b", "a b c", isLoss: false),
        Case("a", "a b", "a b c", isLoss: false),
        Case(nil, "", "x", isLoss: false),
        // The author of the result had read all.
        Case("a b c", "a b c", "x", isLoss: false),
        // A change is missing in the result.
        Case("a b c", "A b c", "a b C", isLoss: true),
        Case("a b c d e", "a b c d e f", "A b c d e", isLoss: true),
        Case("a b c", "a c", "a b c", isLoss: true),
        Case("a b c d", "a c d", "a b c D", isLoss: true),
        Case("a", "b", "c", isLoss: true),
        // The result has the change of a line, and a change of the next line.
        Case("a b c", "A b c", "A B c", isLoss: false),
        Case("a b c", "a x b c", "a x y b c", isLoss: false),
        Case("a b c d e", "a x c y e", "a x c y e f", isLoss: false),
        Case("a b c d e", "a x c y e", "a y c x e", isLoss: true),
        // Without a base, only the lines count.
        Case(nil, "a b c", "x a y b z c", isLoss: false),
        Case(nil, "a b c", "c b a", isLoss: true),
        Case(nil, "a b c", "a b", isLoss: true),
        // In a conflict, no line is missing.
        Case("a b c", "a c", "a X c", isLoss: false),
        Case("a b c", "a X c", "a Y X b c", isLoss: false),
        Case("a b c", "a X b Y c", "a Y X b Y c", isLoss: false),
    ]

    private static func bytes(_ words: String) -> [UInt8] {
        words.isEmpty ? [] : Array((words.replacing(" ", with: "\n") + "\n").utf8)
    }

    @Test("a change or a line that the result lacks is a loss", arguments: cases)
    func aMissingChangeIsALoss(sample: Case) {
        let base = sample.base.map(Self.bytes)
        #expect(
            Loss.isLoss(of: Self.bytes(sample.replaced), from: base, by: Self.bytes(sample.result))
                == sample.isLoss)
    }

    @Test("a last line without a line feed counts as one with it")
    func aMissingLineFeedIsNoLoss() {
        #expect(!Loss.isLoss(of: Array("a\nb".utf8), from: nil, by: Array("a\nx\nb\n".utf8)))
        #expect(!Loss.isLoss(of: Array("a\nb\n".utf8), from: nil, by: Array("x\na\nb".utf8)))
    }

    @Test("binary contents are lost unless they are equal or grew")
    func otherBinaryContentsAreALoss() {
        #expect(Loss.isLoss(of: [0, 10, 1], from: [0, 10], by: [0, 10, 2, 10, 1]))
        #expect(Loss.isLoss(of: [65, 10], from: nil, by: [66, 10, 65, 10, 0]))
        #expect(!Loss.isLoss(of: [0, 1], from: nil, by: [0, 1]))
        #expect(!Loss.isLoss(of: [0, 1], from: nil, by: [0, 1, 2]))
    }

    @Test("a comparison that is too large looks only for the lines")
    func aLargeComparisonLooksForLines() {
        let limit = DifferenceLimit(differences: 0, comparisons: 0)
        let (base, replaced) = (Self.bytes("a b c d"), Self.bytes("b a c d"))
        #expect(Loss.isLoss(of: replaced, from: base, by: Self.bytes("a b d c"), limit: limit))
        #expect(!Loss.isLoss(of: replaced, from: base, by: Self.bytes("x b a c d"), limit: limit))
    }
}
