// SPDX-License-Identifier: Apache-2.0
import VersionStore

/// The form of an event in the log: fields `key=value` with tabs between them, and a full stop as the last field.
///
///     n=17	t=1764370000123456789	k=written	p=notes/a.md	c=vim	i=4711	u=1000	.
///
/// A reader skips keys that it does not know. A line without the last field was cut off by a crash, and is skipped as well. In
/// values, control characters and `%` are written as `%` and two hexadecimal digits.
enum HistoryLine {
    private static let tab = UInt8(ascii: "\t")
    private static let end = UInt8(ascii: ".")
    private static let digits = Array("0123456789abcdef".utf8)

    /// The most bytes of a line. Two paths of 4,096 bytes and the rights of many directories fit into a line.
    static let longest = 1 << 17

    /// Appends the line of an event, with a newline at the end.
    static func append(_ event: HistoryEvent, to line: inout [UInt8]) {
        let start = line.count
        add("n", event.number, to: &line)
        add("t", event.time, to: &line)
        add("k", event.kind.rawValue.utf8, to: &line)
        add("p", event.path, to: &line)
        if let newPath = event.newPath { add("q", newPath, to: &line) }
        if let source = event.source { add("f", source, to: &line) }
        add(event.actor, "c", "i", "u", "r", "s", "z", to: &line)
        if let author = event.author { add(author, "C", "I", "U", "R", "S", "Z", to: &line) }
        if let generation = event.generation { add("g", generation.utf8, to: &line) }
        if let version = event.version { add("v", version.utf8, to: &line) }
        if let detail = event.detail { add("d", detail.utf8, to: &line) }
        if let rights = event.rights { add("m", text(of: rights).utf8, to: &line) }
        for rights in event.closed where line.count - start < longest {
            add("x", text(of: rights).utf8, to: &line)
        }
        for rights in event.sourceClosed where line.count - start < longest {
            add("y", text(of: rights).utf8, to: &line)
        }
        line.append(end)
        line.append(UInt8(ascii: "\n"))
    }

    /// Reads a line without its newline. Returns nil if the line is cut off, or if a needed field is missing.
    static func read(_ line: ArraySlice<UInt8>) -> HistoryEvent? {
        guard line.count <= longest, line.last == end, line.dropLast().last == tab else { return nil }
        var (number, time): (UInt64?, Int64?)
        var (kind, path): (HistoryKind?, [UInt8]?)
        var event = HistoryEvent(.gap, [], at: 0)
        var (actor, author) = (HistoryActor(), HistoryActor())
        var hasAuthor = false
        for field in line.dropLast(2).split(separator: tab) {
            guard let key = field.first, field.dropFirst().first == UInt8(ascii: "=") else { continue }
            let value = decoded(field.dropFirst(2))
            switch key {
            case UInt8(ascii: "n"): number = UInt64(text(value))
            case UInt8(ascii: "t"): time = Int64(text(value))
            case UInt8(ascii: "k"): kind = HistoryKind(rawValue: text(value))
            case UInt8(ascii: "p"): path = value
            case UInt8(ascii: "q"): event.newPath = value
            case UInt8(ascii: "f"): event.source = value
            case UInt8(ascii: "g"): event.generation = text(value)
            case UInt8(ascii: "v"): event.version = text(value)
            case UInt8(ascii: "d"): event.detail = text(value)
            case UInt8(ascii: "m"): event.rights = rights(value)
            // If the rights of a directory cannot be read, only root can enter it.
            case UInt8(ascii: "x"): event.closed.append(rights(value) ?? closedRights)
            case UInt8(ascii: "y"): event.sourceClosed.append(rights(value) ?? closedRights)
            case UInt8(ascii: "A")...UInt8(ascii: "Z"):
                hasAuthor = true
                set(&author, key | 0x20, value)
            default: set(&actor, key, value)
            }
        }
        guard let number, let time, let kind, let path else { return nil }
        (event.number, event.time, event.kind, event.path) = (number, time, kind, path)
        event.actor = actor
        if hasAuthor { event.author = author }
        return event
    }

    /// Returns the number of the event in a line, without reading the rest of the line. Nil if the line does not begin with it.
    static func number(of line: ArraySlice<UInt8>) -> UInt64? {
        guard line.starts(with: "n=".utf8) else { return nil }
        var number: UInt64 = 0
        for byte in line.dropFirst(2) {
            if byte == tab { return number }
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            let (tens, isTooLarge) = number.multipliedReportingOverflow(by: 10)
            let (next, isTooLargeWithDigit) = tens.addingReportingOverflow(UInt64(byte - UInt8(ascii: "0")))
            if isTooLarge || isTooLargeWithDigit { return nil }
            number = next
        }
        return nil
    }

    private static let closedRights = FileRights(user: 0, group: 0, mode: 0, accessControlList: nil)

    private static func set(_ actor: inout HistoryActor, _ key: UInt8, _ value: [UInt8]) {
        switch key {
        case UInt8(ascii: "c"): actor.program = value
        case UInt8(ascii: "i"): actor.process = Int32(text(value)) ?? 0
        case UInt8(ascii: "u"): actor.user = UInt32(text(value))
        case UInt8(ascii: "r"): actor.run = value
        case UInt8(ascii: "s"): actor.runProcess = Int32(text(value))
        case UInt8(ascii: "z"): actor.runIdentity = text(value)
        default: break
        }
    }

    private static func add(
        _ actor: HistoryActor, _ program: StaticString, _ process: StaticString, _ user: StaticString,
        _ run: StaticString, _ runProcess: StaticString, _ runIdentity: StaticString, to line: inout [UInt8]
    ) {
        if !actor.program.isEmpty { add(program, actor.program, to: &line) }
        if actor.process != 0 { add(process, actor.process, to: &line) }
        if let number = actor.user { add(user, number, to: &line) }
        if let name = actor.run { add(run, name, to: &line) }
        if let number = actor.runProcess { add(runProcess, number, to: &line) }
        if let identity = actor.runIdentity { add(runIdentity, identity.utf8, to: &line) }
    }

    private static func add(_ key: StaticString, _ value: some Sequence<UInt8>, to line: inout [UInt8]) {
        key.withUTF8Buffer { line.append(contentsOf: $0) }
        line.append(UInt8(ascii: "="))
        for byte in value {
            if byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "%") {
                line.append(UInt8(ascii: "%"))
                line.append(digits[Int(byte >> 4)])
                line.append(digits[Int(byte & 15)])
            } else {
                line.append(byte)
            }
        }
        line.append(tab)
    }

    private static func add(_ key: StaticString, _ value: some BinaryInteger, to line: inout [UInt8]) {
        add(key, String(value).utf8, to: &line)
    }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    private static func decoded(_ value: ArraySlice<UInt8>) -> [UInt8] {
        guard value.contains(UInt8(ascii: "%")) else { return Array(value) }
        var bytes: [UInt8] = []
        var rest = value
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%"), let high = rest.popFirst(), let low = rest.popFirst(),
                let upper = digits.firstIndex(of: high), let lower = digits.firstIndex(of: low)
            else {
                bytes.append(byte)
                continue
            }
            bytes.append(UInt8(upper << 4 | lower))
        }
        return bytes
    }

    /// Rights as text: user, group, mode in octal and the access control list in hexadecimal, with colons between them.
    private static func text(of rights: FileRights) -> String {
        let list = rights.accessControlList.map { bytes in
            ":"
                + String(
                    decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
        }
        return "\(rights.user):\(rights.group):\(String(rights.mode, radix: 8))\(list ?? "")"
    }

    private static func rights(_ value: [UInt8]) -> FileRights? {
        let parts = text(value).split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 3 || parts.count == 4, let user = UInt32(parts[0]), let group = UInt32(parts[1]),
            let mode = UInt32(parts[2], radix: 8)
        else { return nil }
        guard parts.count == 4 else {
            return FileRights(user: user, group: group, mode: mode, accessControlList: nil)
        }
        let text = Array(parts[3].utf8)
        guard text.count.isMultiple(of: 2) else { return nil }
        var list: [UInt8] = []
        for index in stride(from: 0, to: text.count, by: 2) {
            guard let upper = digits.firstIndex(of: text[index]),
                let lower = digits.firstIndex(of: text[index + 1])
            else { return nil }
            list.append(UInt8(upper << 4 | lower))
        }
        return FileRights(user: user, group: group, mode: mode, accessControlList: list)
    }
}
