// SPDX-License-Identifier: Apache-2.0

/// The result of a merge.
package enum MergeResult: Equatable, Sendable {
    /// The text with all changes of both sides.
    case clean([UInt8])
    /// The sides changed the same lines, or lines that are too close to each other.
    case conflict
    /// The comparison would need too much time or memory.
    case tooLarge
}

/// Merges two texts that were made from one text, line by line.
package enum ThreeWayMerge {
    /// Merges the changes of two sides. Changes of the same lines to the same contents are one change.
    ///
    /// - Parameters:
    ///   - base: The text from which both sides were made.
    ///   - ours: The text of the first side.
    ///   - theirs: The text of the second side.
    ///   - distance: The least number of unchanged lines between a change of one side and a change of the other side.
    ///   - limit: The bound of the work for each of the two comparisons.
    /// - Returns: The merged text, or why there is none.
    package static func merge(
        base: [UInt8], ours: [UInt8], theirs: [UInt8], distance: Int = 1,
        limit: DifferenceLimit = DifferenceLimit()
    ) -> MergeResult {
        if ours == theirs || base == theirs { return .clean(ours) }
        if base == ours { return .clean(theirs) }
        guard let texts = ChangedTexts(base: base, ours: ours, theirs: theirs, limit: limit) else {
            return .tooLarge
        }
        return texts.merged(distance: distance).map { .clean($0) } ?? .conflict
    }
}
