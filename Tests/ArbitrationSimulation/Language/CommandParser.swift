// SPDX-License-Identifier: Apache-2.0
import Coordination

package struct CommandSyntaxError: Error {}

/// Reads the words of a command from left to right.
struct CommandParser {
    private var words: [String]

    init(_ command: String) { words = command.split(separator: " ").map(String.init).reversed() }

    var isAtEnd: Bool { words.isEmpty }
    var peek: String? { words.last }

    mutating func next() throws(CommandSyntaxError) -> String {
        guard let word = words.popLast() else { throw CommandSyntaxError() }
        return word
    }

    mutating func claim() throws(CommandSyntaxError) -> ClaimID { ClaimID(try number()) }

    mutating func item() throws(CommandSyntaxError) -> ItemID {
        let word = try next()
        guard word.hasPrefix("@"), let number = UInt64(word.dropFirst()) else { throw CommandSyntaxError() }
        return ItemID(number)
    }

    /// Reads a part of a claim.
    ///
    /// A part begins with `read @1`, `read(withoutChanges,forUploading) @1`, `write @1` (an update) or `forMoving @1`. ` in @5
    /// link 2` and `via @7` may follow.
    mutating func part() throws(CommandSyntaxError) -> ClaimRequest.Part {
        let access = try self.access()
        let item = try self.item()
        let place = try self.place(after: "in")
        return ClaimRequest.Part(item, access, at: place, via: try follows("via") ? try self.item() : nil)
    }

    private mutating func access() throws(CommandSyntaxError) -> Access {
        let word = try next()
        if let option = WritingOption(rawValue: word == "write" ? "updating" : word) { return .write(option) }
        if word == "read" { return .read() }
        guard word.hasPrefix("read("), word.hasSuffix(")") else { throw CommandSyntaxError() }
        var options: ReadingOptions = []
        for name in word.dropFirst(5).dropLast().split(separator: ",") {
            guard let option = Self.readingOptions[String(name)] else { throw CommandSyntaxError() }
            options.insert(option)
        }
        return .read(options)
    }

    package static let readingOptions: [String: ReadingOptions] = [
        "withoutChanges": .withoutChanges, "resolvesSymbolicLink": .resolvesSymbolicLink,
        "immediatelyAvailableMetadataOnly": .immediatelyAvailableMetadataOnly,
        "forUploading": .forUploading,
    ]

    /// Reads a place such as `in @5 link 2` after the given preposition. Returns an empty place if the preposition does not
    /// follow.
    mutating func place(after preposition: String) throws(CommandSyntaxError) -> Place {
        let directory = try follows(preposition) ? try item() : nil
        return Place(in: directory, link: try follows("link") ? LinkID(try number()) : nil)
    }

    /// Reads the next word and returns true if it is the given word; else returns false and reads nothing.
    mutating func follows(_ word: String) throws(CommandSyntaxError) -> Bool {
        guard peek == word else { return false }
        words.removeLast()
        return true
    }

    /// Reads the next word; throws if it is not the given word.
    mutating func expect(_ word: String) throws(CommandSyntaxError) {
        guard try next() == word else { throw CommandSyntaxError() }
    }

    /// Reads a party, such as `nobody`, `nobody purpose x`, `100`, `100 below 50 20` or `100 background`.
    mutating func party() throws(CommandSyntaxError) -> Party {
        if peek == "nobody" {
            words.removeLast()
            var nobody = Party.nobody
            try details(of: &nobody)
            return nobody
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

    /// Reads the details of a party: `thread 7`, `session 7`, `terminals 1 0 1`, `purpose x` and `beside 60`, in this order.
    private mutating func details(of party: inout Party) throws(CommandSyntaxError) {
        if try follows("thread") { party.thread = Int32(truncatingIfNeeded: try number()) }
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
        if peek == "beside" {
            words.removeLast()
            party.partner = try self.party()
        }
    }

    mutating func presenter() throws(CommandSyntaxError) -> PresenterID {
        PresenterID(try number(after: "p"))
    }

    mutating func question() throws(CommandSyntaxError) -> QuestionID { QuestionID(try number(after: "?")) }

    private mutating func number(after prefix: String) throws(CommandSyntaxError) -> UInt64 {
        let word = try next()
        guard word.hasPrefix(prefix), let number = UInt64(word.dropFirst(prefix.count)) else {
            throw CommandSyntaxError()
        }
        return number
    }

    /// Reads the messages that a presenter implements, such as `save didChange` or `all`, up to the end of the command.
    mutating func messages() throws(CommandSyntaxError) -> PresenterMessages {
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
                throw CommandSyntaxError()
            }
        }
        return messages
    }

    /// Reads an observation: `clean`, `unchanged 0`, `untouched`, `dirty 7`, `atEnd`, `atEndUnconfirmed 512` or `reading 512`.
    mutating func observation() throws(CommandSyntaxError) -> Observation {
        switch try next() {
        case "clean": return .clean
        case "unchanged": return .unchanged(position: Int64(try number()))
        case "untouched": return .emptied
        case "dirty": return .dirty(stamp: try number())
        case "atEnd": return .atEnd
        case "finishing": return .atEndUnconfirmed(position: Int64(try number()))
        case "reading": return .reading(position: Int64(try number()))
        default: throw CommandSyntaxError()
        }
    }

    /// Reads a time span, such as `250ms` or `2s`.
    mutating func span() throws(CommandSyntaxError) -> TimeSpan { try Self.span(try next()) }

    /// Reads the time limits of one claim, such as `wait=1s hold=2s`, as far as there are any.
    mutating func claimBounds() throws(CommandSyntaxError) -> ClaimBounds {
        var bounds = ClaimBounds()
        while let word = peek, word.contains("=") {
            words.removeLast()
            let halves = word.split(separator: "=").map(String.init)
            guard halves.count == 2 else { throw CommandSyntaxError() }
            switch halves[0] {
            case "wait": bounds.wait = try Self.span(halves[1])
            case "hold": bounds.hold = try Self.span(halves[1])
            default: throw CommandSyntaxError()
            }
        }
        return bounds
    }

    /// Reads a time limit or the policy of the arbiter, such as `hold=2s` or `policy=fail`.
    mutating func bound(_ bounds: inout Bounds) throws(CommandSyntaxError) {
        let halves = try next().split(separator: "=").map(String.init)
        guard halves.count == 2 else { throw CommandSyntaxError() }
        switch halves[0] {
        case "policy":
            guard let policy = TimeoutPolicy(rawValue: halves[1]) else { throw CommandSyntaxError() }
            bounds.policy = policy
        case "wait": bounds.wait = try Self.span(halves[1])
        case "hold": bounds.hold = try Self.span(halves[1])
        case "idle": bounds.idle = try Self.span(halves[1])
        case "readerIdle": bounds.readerIdle = try Self.span(halves[1])
        case "outset": bounds.unchangedGrace = try Self.span(halves[1])
        case "glance": bounds.firstObservationDelay = try Self.span(halves[1])
        case "holdAware": bounds.holdAware = try Self.span(halves[1])
        case "relinquish": bounds.relinquish = try Self.span(halves[1])
        case "save": bounds.save = try Self.span(halves[1])
        case "deletion": bounds.deletion = try Self.span(halves[1])
        case "progress": bounds.progress = try Self.span(halves[1])
        case "askAgain": bounds.askAgain = try Self.span(halves[1])
        case "trailing": bounds.trailing = try Self.span(halves[1])
        case "steps": bounds.steps = try Self.span(halves[1])
        case "excused": bounds.excused = try Self.span(halves[1])
        default: throw CommandSyntaxError()
        }
    }

    private static func span(_ word: String) throws(CommandSyntaxError) -> TimeSpan {
        if word.hasSuffix("ms"), let count = UInt64(word.dropLast(2)) { return .milliseconds(count) }
        if word.hasSuffix("s"), let count = UInt64(word.dropLast()) { return .seconds(count) }
        throw CommandSyntaxError()
    }

    mutating func number() throws(CommandSyntaxError) -> UInt64 {
        guard let number = UInt64(try next()) else { throw CommandSyntaxError() }
        return number
    }

    private mutating func process() throws(CommandSyntaxError) -> ProcessID {
        ProcessID(number: Int32(truncatingIfNeeded: try number()), started: 1)
    }
}
