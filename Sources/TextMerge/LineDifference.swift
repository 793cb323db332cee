// SPDX-License-Identifier: Apache-2.0

/// A place at which two texts differ: these lines of the first text were replaced by these lines of the second text.
struct Hunk: Equatable, Sendable {
    var old: Range<Int>
    var new: Range<Int>
}

/// A shortest difference between two texts, whose lines have numbers, by the greedy algorithm of Myers.
///
/// A line that only one of the texts has can match nothing, so these lines are left out first. Then the work depends on how
/// many other lines differ. The work is bounded, because the texts can be large and completely different.
enum LineDifference {
    /// Compares two texts.
    ///
    /// - Parameters:
    ///   - old: The numbers of the first text's lines.
    ///   - new: The numbers of the second text's lines.
    ///   - limit: The bound of the work.
    /// - Returns: The hunks in the order of their lines, with at least one equal line between two of them; nil if the work would
    ///   be too large.
    static func hunks(from old: [Int32], to new: [Int32], limit: DifferenceLimit) -> [Hunk]? {
        let count = Int(max(old.max() ?? -1, new.max() ?? -1) + 1)
        var isOld = [Bool](repeating: false, count: count)
        var isNew = isOld
        for line in old { isOld[Int(line)] = true }
        for line in new { isNew[Int(line)] = true }
        let oldPlaces = old.indices.filter { isNew[Int(old[$0])] }
        let newPlaces = new.indices.filter { isOld[Int(new[$0])] }
        let path = EditPath(from: oldPlaces.map { old[$0] }, to: newPlaces.map { new[$0] }, limit: limit)
        guard let matches = path.matches() else { return nil }
        let found = hunks(
            around: matches.map { (old: oldPlaces[$0.old], new: newPlaces[$0.new]) }, old.count, new.count)
        return slide(found, old, new)
    }

    /// The lines between the pairs of equal lines.
    private static func hunks(around matches: [(old: Int, new: Int)], _ oldCount: Int, _ newCount: Int)
        -> [Hunk]
    {
        var hunks: [Hunk] = []
        var (oldStart, newStart) = (0, 0)
        for match in matches + [(old: oldCount, new: newCount)] {
            if match.old > oldStart || match.new > newStart {
                hunks.append(Hunk(old: oldStart..<match.old, new: newStart..<match.new))
            }
            (oldStart, newStart) = (match.old + 1, match.new + 1)
        }
        return hunks
    }

    /// Moves each hunk that only inserts or only removes lines as far down as the lines permit. Several differences are equally
    /// short if lines repeat. This choice makes two texts with the same change have the same hunk.
    private static func slide(_ hunks: [Hunk], _ old: [Int32], _ new: [Int32]) -> [Hunk] {
        var result: [Hunk] = []
        // From the end, because a hunk that reaches the next hunk becomes a part of it.
        for var hunk in hunks.reversed() {
            while hunk.old.isEmpty || hunk.new.isEmpty {
                if let next = result.last, next.old.lowerBound == hunk.old.upperBound {
                    hunk = Hunk(
                        old: hunk.old.lowerBound..<next.old.upperBound,
                        new: hunk.new.lowerBound..<next.new.upperBound)
                    result.removeLast()
                    continue
                }
                let (lines, range) = hunk.old.isEmpty ? (new, hunk.new) : (old, hunk.old)
                guard range.upperBound < lines.count, lines[range.lowerBound] == lines[range.upperBound]
                else { break }
                hunk = hunk.nextLine
            }
            result.append(hunk)
        }
        return result.reversed()
    }
}

extension Hunk {
    fileprivate var nextLine: Hunk {
        Hunk(
            old: old.lowerBound + 1..<old.upperBound + 1, new: new.lowerBound + 1..<new.upperBound + 1)
    }
}

/// The bound of the work for one difference.
package struct DifferenceLimit: Sendable {
    /// How many lines that are in both texts may differ. The memory grows with the square of this number: 8 MiB for 2,000.
    package var differences = 2_000
    /// How many pairs of lines may be compared.
    package var comparisons = 50_000_000

    package init() {}

    package init(differences: Int, comparisons: Int) {
        (self.differences, self.comparisons) = (differences, comparisons)
    }

    fileprivate func differences(among lines: Int) -> Int { min(differences, comparisons / max(1, lines)) }
}

/// The search for a shortest path from one sequence of lines to another.
private struct EditPath {
    private let old: [Int32]
    private let new: [Int32]
    private let limit: Int
    /// The number of lines that are equal at the start of both.
    private let head: Int
    /// The number of further lines that are equal at the end of both.
    private let tail: Int

    init(from old: [Int32], to new: [Int32], limit: DifferenceLimit) {
        let head = zip(old, new).prefix { $0 == $1 }.count
        let longest = min(old.count, new.count) - head
        self.head = head
        tail = zip(old.reversed(), new.reversed()).prefix(longest).prefix { $0 == $1 }.count
        (self.old, self.new) = (old, new)
        self.limit = limit.differences(among: old.count + new.count)
    }

    private var oldCount: Int { old.count - head - tail }
    private var newCount: Int { new.count - head - tail }

    /// The pairs of equal lines, or nil if more lines than the limit differ.
    func matches() -> [(old: Int, new: Int)]? {
        guard let steps = search() else { return nil }
        let middle = walkBack(steps)
        let oldTail = old.count - tail
        let newTail = new.count - tail
        return (0..<head).map { (old: $0, new: $0) } + middle
            + (0..<tail).map { (old: oldTail + $0, new: newTail + $0) }
    }

    /// For each number of differences, the farthest old line that each diagonal reaches with it. A diagonal is the difference of
    /// the numbers of an old line and a new line. With d differences, only the diagonals -d, -d + 2, …, d are reached.
    private func search() -> [[Int32]]? {
        var steps: [[Int32]] = []
        for differences in 0...(oldCount + newCount) {
            guard differences <= limit else { return nil }
            var reached = [Int32](repeating: 0, count: differences + 1)
            for index in 0...differences {
                var line = start(index, steps.last)
                let diagonal = 2 * index - differences
                while line < oldCount, line - diagonal < newCount, line - diagonal >= 0,
                    old[head + line] == new[head + line - diagonal]
                {
                    line += 1
                }
                reached[index] = Int32(line)
                if line >= oldCount, line - diagonal >= newCount { return steps + [reached] }
            }
            steps.append(reached)
        }
        return steps
    }

    /// The old line at which a diagonal begins, after the difference that leads farther.
    private func start(_ index: Int, _ previous: [Int32]?) -> Int {
        guard let previous else { return 0 }
        return removes(index, previous) ? Int(previous[index - 1]) + 1 : Int(previous[index])
    }

    /// Whether the last difference on the way to a diagonal removes an old line; otherwise it inserts a new line.
    private func removes(_ index: Int, _ previous: [Int32]) -> Bool {
        guard index > 0 else { return false }
        return index == previous.count || previous[index - 1] >= previous[index]
    }

    private func walkBack(_ steps: [[Int32]]) -> [(old: Int, new: Int)] {
        var matches: [(old: Int, new: Int)] = []
        var (line, diagonal) = (oldCount, oldCount - newCount)
        for differences in stride(from: steps.count - 1, through: 0, by: -1) {
            let index = (diagonal + differences) / 2
            let previous = differences == 0 ? nil : steps[differences - 1]
            let first = start(index, previous)
            while line > first {
                line -= 1
                matches.append((old: head + line, new: head + line - diagonal))
            }
            guard let previous else { break }
            let isRemoval = removes(index, previous)
            line = isRemoval ? first - 1 : first
            diagonal += isRemoval ? -1 : 1
        }
        return matches.reversed()
    }
}
