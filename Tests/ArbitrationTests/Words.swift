// SPDX-License-Identifier: Apache-2.0
import Arbitration
import Coordination

struct Unreadable: Error {}

/// The words of one command, read from left to right.
struct Words {
    private var words: [String]

    init(_ command: String) { words = command.split(separator: " ").map(String.init).reversed() }

    var isAtEnd: Bool { words.isEmpty }
    var peek: String? { words.last }

    mutating func next() throws(Unreadable) -> String {
        guard let word = words.popLast() else { throw Unreadable() }
        return word
    }

    mutating func claim() throws(Unreadable) -> ClaimID { ClaimID(try number()) }

    mutating func item() throws(Unreadable) -> ItemID {
        let word = try next()
        guard word.hasPrefix("@"), let number = UInt64(word.dropFirst()) else { throw Unreadable() }
        return ItemID(number)
    }

    /// Reads `read @1`, `write @1` (which is updating) or `forMoving @1`.
    mutating func part() throws(Unreadable) -> Request.Part {
        let word = try next()
        let option = WritingOption(rawValue: word == "write" ? "updating" : word)
        guard option != nil || word == "read" else { throw Unreadable() }
        return Request.Part(try item(), option.map(Access.write) ?? .read)
    }

    /// Reads `nobody`, `100`, `100 below 50 20` or `100 background`.
    mutating func party() throws(Unreadable) -> Party {
        if peek == "nobody" {
            words.removeLast()
            return .nobody
        }
        let process = try self.process()
        var ancestors: [ProcessID] = []
        if peek == "below" {
            words.removeLast()
            while let word = peek, Int32(word) != nil { ancestors.append(try self.process()) }
        }
        let isBackground = peek == "background"
        if isBackground { words.removeLast() }
        return Party(
            process: process, ancestors: ancestors, programClass: isBackground ? .background : .ordinary)
    }

    /// Reads `clean`, `untouched`, `dirty 7`, `atEnd` or `reading 512`.
    mutating func observation() throws(Unreadable) -> Observation {
        switch try next() {
        case "clean": return .clean
        case "untouched": return .untouched
        case "dirty": return .dirty(stamp: try number())
        case "atEnd": return .atEnd
        case "reading": return .reading(position: Int64(try number()))
        default: throw Unreadable()
        }
    }

    /// Reads `250ms` or `2s`.
    mutating func span() throws(Unreadable) -> Span { try Self.span(try next()) }

    /// Reads `hold=2s` or `policy=fail`.
    mutating func bound(_ bounds: inout Bounds) throws(Unreadable) {
        let halves = try next().split(separator: "=").map(String.init)
        guard halves.count == 2 else { throw Unreadable() }
        switch halves[0] {
        case "policy":
            guard let policy = Policy(rawValue: halves[1]) else { throw Unreadable() }
            bounds.policy = policy
        case "wait": bounds.wait = try Self.span(halves[1])
        case "hold": bounds.hold = try Self.span(halves[1])
        case "idle": bounds.idle = try Self.span(halves[1])
        case "readerIdle": bounds.readerIdle = try Self.span(halves[1])
        case "glance": bounds.glance = try Self.span(halves[1])
        default: throw Unreadable()
        }
    }

    private static func span(_ word: String) throws(Unreadable) -> Span {
        if word.hasSuffix("ms"), let count = UInt64(word.dropLast(2)) { return .milliseconds(count) }
        if word.hasSuffix("s"), let count = UInt64(word.dropLast()) { return .seconds(count) }
        throw Unreadable()
    }

    private mutating func number() throws(Unreadable) -> UInt64 {
        guard let number = UInt64(try next()) else { throw Unreadable() }
        return number
    }

    private mutating func process() throws(Unreadable) -> ProcessID {
        ProcessID(number: Int32(truncatingIfNeeded: try number()), started: 1)
    }
}
