// SPDX-License-Identifier: Apache-2.0

/// Two texts that were made from one text, with their differences from it. Line ends belong to their lines, so a changed line
/// end is a changed line.
struct ChangedTexts {
    /// One of the two texts.
    private struct Side {
        let text: TextLines
        let hunks: [Hunk]

        func lines(_ hunk: Hunk) -> ArraySlice<UInt8> { text[hunk.new] }
    }

    private let base: TextLines
    private let ours: Side
    private let theirs: Side

    /// Compares the texts. The result is nil if a comparison would be too large.
    init?(base: [UInt8], ours: [UInt8], theirs: [UInt8], limit: DifferenceLimit) {
        let (oldText, ourText, theirText) = (TextLines(base), TextLines(ours), TextLines(theirs))
        var numbers = LineNumbers()
        let old = numbers.number(oldText)
        guard let ours = LineDifference.hunks(from: old, to: numbers.number(ourText), limit: limit),
            let theirs = LineDifference.hunks(from: old, to: numbers.number(theirText), limit: limit)
        else { return nil }
        self.base = oldText
        self.ours = Side(text: ourText, hunks: ours)
        self.theirs = Side(text: theirText, hunks: theirs)
    }

    /// The text with all changes of both sides, or nil if changes that are not equal are closer than `distance` lines.
    func merged(distance: Int) -> [UInt8]? {
        var merged: [UInt8] = []
        var line = 0
        var (our, their) = (ours.hunks[...], theirs.hunks[...])
        while let next = Self.next(our.first, their.first, distance) {
            let (hunk, side): (Hunk, Side)
            switch next {
            case .ours(let ourHunk):
                (hunk, side) = (ourHunk, ours)
                our.removeFirst()
            case .theirs(let theirHunk):
                (hunk, side) = (theirHunk, theirs)
                their.removeFirst()
            case .both(let ourHunk, let theirHunk):
                guard ourHunk.old == theirHunk.old, ours.lines(ourHunk) == theirs.lines(theirHunk) else {
                    return nil
                }
                (hunk, side) = (ourHunk, ours)
                our.removeFirst()
                their.removeFirst()
            }
            merged += base[line..<hunk.old.lowerBound]
            merged += side.lines(hunk)
            line = hunk.old.upperBound
        }
        return merged + base[line..<base.count]
    }

    /// The next hunks of two sides in the order of their lines. Hunks that are not apart from each other come together.
    private enum NextHunk { case ours(Hunk), theirs(Hunk), both(Hunk, Hunk) }

    private static func next(_ ours: Hunk?, _ theirs: Hunk?, _ distance: Int) -> NextHunk? {
        guard let ours else { return theirs.map { .theirs($0) } }
        guard let theirs else { return .ours(ours) }
        if ours.old.upperBound + distance <= theirs.old.lowerBound { return .ours(ours) }
        if theirs.old.upperBound + distance <= ours.old.lowerBound { return .theirs(theirs) }
        return .both(ours, theirs)
    }

    /// Whether the second text has all changes of the first text: it has each of its hunks, or it has a larger hunk that
    /// contains the new lines of such a hunk in their order.
    var theirsHasAllOfOurs: Bool {
        var remaining = theirs.hunks[...]
        /// The lines of the first remaining hunk that earlier hunks have not taken.
        var free = remaining.first?.new
        return ours.hunks.allSatisfy { hunk in
            while let next = remaining.first, !next.old.contains(hunk.old),
                next.old.upperBound <= hunk.old.lowerBound
            {
                remaining.removeFirst()
                free = remaining.first?.new
            }
            guard let next = remaining.first, let lines = free, next.old.contains(hunk.old) else {
                return false
            }
            guard !hunk.new.isEmpty else { return next.old == hunk.old && next.new.isEmpty }
            free = Self.search(for: hunk.new, of: ours.text, in: lines, of: theirs.text)
            return free != nil
        }
    }
}

extension ChangedTexts {
    /// Searches for lines in other lines, in their order. A last line without a line feed counts as one with it. Returns the
    /// other lines after the last found line, or nil if a line is missing.
    static func search(
        for lines: Range<Int>, of text: TextLines, in others: Range<Int>, of other: TextLines
    ) -> Range<Int>? {
        var next = others.lowerBound
        for line in lines {
            while next < others.upperBound, other.withoutLineFeed(next) != text.withoutLineFeed(line) {
                next += 1
            }
            guard next < others.upperBound else { return nil }
            next += 1
        }
        return next..<others.upperBound
    }
}

extension Range {
    fileprivate func contains(_ other: Range) -> Bool {
        lowerBound <= other.lowerBound && other.upperBound <= upperBound
    }
}
