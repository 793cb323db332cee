// SPDX-License-Identifier: Apache-2.0

/// Decides from contents alone whether a replacement of contents lost a part of them: a change, or a line.
///
/// The answer errs on the side of a loss. If a comparison is too large, the answer is no only if all lines are still there.
package enum Loss {
    /// Compares the contents before and after a replacement.
    ///
    /// - Parameters:
    ///   - replaced: The contents that the result replaced.
    ///   - base: The contents from which the replaced contents and the result were made, if they are known.
    ///   - result: The contents afterwards.
    ///   - limit: The bound of the work for each comparison.
    /// - Returns: Whether a change or a line is missing.
    package static func isLoss(
        of replaced: [UInt8], from base: [UInt8]?, by result: [UInt8],
        limit: DifferenceLimit = DifferenceLimit()
    ) -> Bool {
        // Contents that only grew are not lost, and neither are contents that are the same as before.
        if result.starts(with: replaced) || base == replaced { return false }
        guard !isBinary(replaced), !isBinary(result) else { return true }
        guard let base, !isBinary(base),
            let texts = ChangedTexts(base: base, ours: replaced, theirs: result, limit: limit)
        else { return !hasAllLines(of: replaced, in: result) }
        if texts.theirsHasAllOfOurs { return false }
        // Without a conflict, the changes say it all: a line that was removed and came back is a loss, too.
        return texts.merged(distance: 1) != nil || !hasAllLines(of: replaced, in: result)
    }

    /// Whether contents are no text. Texts contain no zero byte.
    private static func isBinary(_ contents: [UInt8]) -> Bool { contents.contains(0) }

    /// Whether all lines of a text are in another text, in their order.
    private static func hasAllLines(of text: [UInt8], in other: [UInt8]) -> Bool {
        let (lines, others) = (TextLines(text), TextLines(other))
        return ChangedTexts.search(for: 0..<lines.count, of: lines, in: 0..<others.count, of: others) != nil
    }
}
