// SPDX-License-Identifier: Apache-2.0

/// A glob over paths below the root of a mount, such as `src/**/*.md`.
///
/// `*` and `?` stand for any bytes but slashes, `[a-z]` and `[!a-z]` for one byte. `**` is a whole part of the path: it
/// stands for any number of directories, and at the end for everything below. A backslash takes the next byte as it is.
///
/// The pattern is compiled to an automaton whose states are positions in the pattern. So a match takes time in proportion
/// to the path, and the overlap of two patterns is found byte by byte.
public struct LeasePattern: Hashable, Sendable {
    /// The reason why a text is no pattern, as a part of a sentence after the pattern.
    public struct Problem: Error, Hashable, Sendable {
        public let message: String
    }

    /// A set of bytes.
    private struct ByteSet: Sendable {
        private var words: SIMD4<UInt64> = .zero

        static let all: ByteSet = {
            var set = ByteSet()
            set.words = SIMD4(repeating: .max)
            return set
        }()
        /// All bytes but the slash.
        static let ordinary: ByteSet = {
            var set = all
            set.remove(UInt8(ascii: "/"))
            return set
        }()

        init() {}
        init(_ byte: UInt8) { insert(byte) }

        mutating func insert(_ byte: UInt8) { words[Int(byte >> 6)] |= 1 << UInt64(byte & 63) }
        mutating func remove(_ byte: UInt8) { words[Int(byte >> 6)] &= ~(1 << UInt64(byte & 63)) }
        func contains(_ byte: UInt8) -> Bool { words[Int(byte >> 6)] & 1 << UInt64(byte & 63) != 0 }
        func meets(_ other: ByteSet) -> Bool { words & other.words != .zero }
        /// The ordinary bytes that are not in the set.
        var inverted: ByteSet {
            var set = ByteSet()
            set.words = ~words & Self.ordinary.words
            return set
        }
    }

    private struct Position: Sendable {
        /// The bytes that lead on, each with the position that they lead to.
        var moves: [(bytes: ByteSet, to: Int)] = []
        /// Positions that are reached without a byte.
        var skips: [Int] = []
    }

    /// The most bytes of a pattern.
    public static let longest = 1024

    public let text: String
    private var positions: [Position] = [Position()]

    public static func == (one: Self, other: Self) -> Bool { one.text == other.text }
    public func hash(into hasher: inout Hasher) { hasher.combine(text) }

    /// Compiles a pattern. The text is relative to the root of the mount, without a leading slash.
    public init(_ text: String) throws(Problem) {
        self.text = text
        let bytes = Array(text.utf8)
        guard !bytes.isEmpty else { throw Problem(message: "is empty") }
        guard bytes.count <= Self.longest else {
            throw Problem(message: "has more than \(Self.longest) bytes")
        }
        guard !bytes.contains(0) else { throw Problem(message: "contains a zero byte") }
        let parts = bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() {
            guard !part.isEmpty else { throw Problem(message: "has an empty part: remove a slash") }
            guard part != [UInt8(ascii: ".")], part != ArraySlice("..".utf8) else {
                throw Problem(message: "contains '.' or '..'")
            }
            try add(part, isLast: index == parts.count - 1)
        }
    }

    private mutating func add(_ part: ArraySlice<UInt8>, isLast: Bool) throws(Problem) {
        if part == ArraySlice("**".utf8) { return isLast ? addEverything() : addDirectories() }
        var rest = part
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "*"):
                guard rest.first != UInt8(ascii: "*") else {
                    throw Problem(message: "has '**' beside other letters: '**' is a whole part of a path")
                }
                loop()
            case UInt8(ascii: "?"): advance(by: .ordinary)
            case UInt8(ascii: "["): advance(by: try Self.set(from: &rest))
            case UInt8(ascii: "\\"):
                guard let next = rest.popFirst() else { throw Problem(message: "ends with a backslash") }
                advance(by: ByteSet(next))
            default: advance(by: ByteSet(byte))
            }
        }
        if !isLast { advance(by: ByteSet(UInt8(ascii: "/"))) }
    }

    private mutating func advance(by bytes: ByteSet) {
        positions[positions.count - 1].moves.append((bytes, positions.count))
        positions.append(Position())
    }

    /// `*`: any number of ordinary bytes.
    private mutating func loop() {
        positions[positions.count - 1].moves.append((.ordinary, positions.count - 1))
        positions[positions.count - 1].skips.append(positions.count)
        positions.append(Position())
    }

    /// `**` at the end: one byte or more.
    private mutating func addEverything() {
        advance(by: .all)
        positions[positions.count - 1].moves.append((.all, positions.count - 1))
    }

    /// `**` before a slash: nothing, or any bytes up to a slash.
    private mutating func addDirectories() {
        let (first, inside, next) = (positions.count - 1, positions.count, positions.count + 1)
        positions[first].skips += [inside, next]
        positions.append(Position(moves: [(.all, inside), (ByteSet(UInt8(ascii: "/")), next)]))
        positions.append(Position())
    }

    /// The set of a bracket expression, behind its `[`.
    private static func set(from rest: inout ArraySlice<UInt8>) throws(Problem) -> ByteSet {
        let isInverted = rest.first == UInt8(ascii: "!") || rest.first == UInt8(ascii: "^")
        if isInverted { rest.removeFirst() }
        var (set, isEmpty) = (ByteSet(), true)
        while let first = rest.popFirst() {
            if first == UInt8(ascii: "]"), !isEmpty { return isInverted ? set.inverted : set }
            isEmpty = false
            var last = first
            if rest.first == UInt8(ascii: "-"), let end = rest.dropFirst().first, end != UInt8(ascii: "]") {
                rest.removeFirst(2)
                last = end
            }
            guard first <= last else {
                throw Problem(message: "has a range in '[...]' that ends before it begins")
            }
            for byte in first...last where byte != UInt8(ascii: "/") { set.insert(byte) }
        }
        throw Problem(message: "has '[' without ']'")
    }

    /// Whether a path matches. The path is relative to the root of the mount, without a leading slash.
    public func matches(_ path: [UInt8]) -> Bool { reach(path)[positions.count - 1] }

    /// Whether paths below this directory can match.
    public func canMatch(below directory: [UInt8]) -> Bool {
        directory.isEmpty || reach(directory + [UInt8(ascii: "/")]).contains(true)
    }

    /// The positions to which a path leads.
    private func reach(_ path: [UInt8]) -> [Bool] {
        var present = [Bool](repeating: false, count: positions.count)
        enter(0, &present)
        for byte in path {
            var next = [Bool](repeating: false, count: positions.count)
            for (index, isPresent) in present.enumerated() where isPresent {
                for move in positions[index].moves where move.bytes.contains(byte) { enter(move.to, &next) }
            }
            present = next
            if !present.contains(true) { break }
        }
        return present
    }

    private func enter(_ position: Int, _ present: inout [Bool]) {
        guard !present[position] else { return }
        present[position] = true
        for next in positions[position].skips { enter(next, &present) }
    }

    /// Whether any path matches both patterns.
    public func overlaps(_ other: LeasePattern) -> Bool {
        let width = other.positions.count
        var seen = [Bool](repeating: false, count: positions.count * width)
        var open: [(Int, Int)] = [(0, 0)]
        seen[0] = true
        while let (one, two) = open.popLast() {
            if one == positions.count - 1, two == width - 1 { return true }
            func visit(_ one: Int, _ two: Int) {
                guard !seen[one * width + two] else { return }
                seen[one * width + two] = true
                open.append((one, two))
            }
            for next in positions[one].skips { visit(next, two) }
            for next in other.positions[two].skips { visit(one, next) }
            for move in positions[one].moves {
                for step in other.positions[two].moves where move.bytes.meets(step.bytes) {
                    visit(move.to, step.to)
                }
            }
        }
        return false
    }
}

/// One pattern of a run's leases: other programs take turns with the run for the documents that match.
public struct Lease: Hashable, Sendable {
    public let pattern: LeasePattern
    /// Whether other programs wait even to read. For a lease to read, only writers wait.
    public let isWrite: Bool

    public init(_ pattern: LeasePattern, isWrite: Bool) {
        self.pattern = pattern
        self.isWrite = isWrite
    }

    /// Whether two leases cannot be held at once, because a path matches both and one of them writes.
    public func conflicts(with other: Lease) -> Bool {
        (isWrite || other.isWrite) && pattern.overlaps(other.pattern)
    }

    /// Whether an access of a program outside of the run has to wait for the lease.
    public func covers(_ path: [UInt8], _ access: Access) -> Bool {
        guard isWrite || access.isWrite else { return false }
        return pattern.matches(path) || access.isStructural && pattern.canMatch(below: path)
    }
}
