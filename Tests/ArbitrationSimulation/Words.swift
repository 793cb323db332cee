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
        let programClass = peek.flatMap(ProgramClass.init) ?? .ordinary
        if programClass != .ordinary { words.removeLast() }
        var party = Party(process: process, ancestors: ancestors, programClass: programClass)
        try details(of: &party)
        return party
    }

    /// Reads `session 7`, `terminals 1 0 1` and `purpose x`, in this order.
    private mutating func details(of party: inout Party) throws(Unreadable) {
        if peek == "session" {
            words.removeLast()
            party.session = Int32(truncatingIfNeeded: try number())
        }
        if peek == "terminals" {
            words.removeLast()
            while let word = peek, let terminal = Int32(word) {
                words.removeLast()
                party.terminals.append(terminal)
            }
        }
        if peek == "purpose" {
            words.removeLast()
            party.purpose = Purpose(try next())
        }
    }

    mutating func presenter() throws(Unreadable) -> PresenterID {
        PresenterID(try number(after: "p"))
    }

    mutating func question() throws(Unreadable) -> QuestionID { QuestionID(try number(after: "?")) }

    private mutating func number(after prefix: String) throws(Unreadable) -> UInt64 {
        let word = try next()
        guard word.hasPrefix(prefix), let number = UInt64(word.dropFirst(prefix.count)) else {
            throw Unreadable()
        }
        return number
    }

    /// Reads `save didChange` or `all`, up to the end.
    mutating func messages() throws(Unreadable) -> PresenterMessages {
        var messages: PresenterMessages = []
        while !isAtEnd {
            let word = try next()
            if word == "all" {
                messages = .all
            } else if let request = PresenterRequest(rawValue: word) {
                messages.insert(PresenterMessages(request))
            } else if let notice = PresenterNotice(rawValue: word) {
                messages.insert(PresenterMessages(notice))
            } else {
                throw Unreadable()
            }
        }
        return messages
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
        case "holdAware": bounds.holdAware = try Self.span(halves[1])
        case "relinquish": bounds.relinquish = try Self.span(halves[1])
        case "save": bounds.save = try Self.span(halves[1])
        case "deletion": bounds.deletion = try Self.span(halves[1])
        case "progress": bounds.progress = try Self.span(halves[1])
        case "askAgain": bounds.askAgain = try Self.span(halves[1])
        case "trailing": bounds.trailing = try Self.span(halves[1])
        case "excused": bounds.excused = try Self.span(halves[1])
        default: throw Unreadable()
        }
    }

    private static func span(_ word: String) throws(Unreadable) -> Span {
        if word.hasSuffix("ms"), let count = UInt64(word.dropLast(2)) { return .milliseconds(count) }
        if word.hasSuffix("s"), let count = UInt64(word.dropLast()) { return .seconds(count) }
        throw Unreadable()
    }

    mutating func number() throws(Unreadable) -> UInt64 {
        guard let number = UInt64(try next()) else { throw Unreadable() }
        return number
    }

    private mutating func process() throws(Unreadable) -> ProcessID {
        ProcessID(number: Int32(truncatingIfNeeded: try number()), started: 1)
    }
}
