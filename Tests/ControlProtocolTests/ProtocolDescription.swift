// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation

/// The schema and the prose of the protocol, in a form for comparison.
struct ProtocolDescription: Sendable {
    /// A closed set of names that code, schema and prose have in common.
    enum Topic: String, CaseIterable {
        case requests, notifications, serverRequests, serverNotifications
        case accesses, readingOptions, messages, eventKinds, errorCodes
    }

    private static let catalog = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Sources/ControlProtocol/ControlProtocol.docc")

    var schema: JSONValue
    var prose: String

    init(schema: JSONValue, prose: String) { (self.schema, self.prose) = (schema, prose) }

    private static let real = Result {
        let schema = catalog.appendingPathComponent("Resources/protocol.schema.json")
        let prose = catalog.appendingPathComponent("Protocol.md")
        return ProtocolDescription(
            schema: try JSONValue(parsing: Array(Data(contentsOf: schema))),
            prose: withoutListings(try String(contentsOf: prose, encoding: .utf8)))
    }

    /// Listings of programs are no prose.
    private static func withoutListings(_ text: String) -> String {
        let parts = text.components(separatedBy: "\n```")
        return parts.indices.filter { $0.isMultiple(of: 2) }.map { parts[$0] }.joined(separator: "\n")
    }

    /// The texts of the catalog.
    init() throws { self = try Self.real.get() }
}

// From the code.
extension ProtocolDescription {
    static func known(_ topic: Topic) -> [String] {
        switch topic {
        case .requests: ControlProtocol.ClientRequest.Method.allCases.map(\.rawValue)
        case .notifications: ClientNotification.Method.allCases.map(\.rawValue)
        case .serverRequests: PresenterRequest.allCases.map { "presenter/\($0.rawValue)" }
        case .serverNotifications:
            PresenterNotice.allCases.map { "presenter/\($0.rawValue)" } + [EventForm.method]
        case .accesses: Access.allNames
        case .readingOptions: ReadingOptions.allNames
        case .messages: PresenterMessages.all.names
        case .eventKinds: EventKind.allCases.map(\.rawValue)
        case .errorCodes: ProtocolFailure.Code.allCases.map { "\($0.rawValue)" }
        }
    }
}

// From the schema.
extension ProtocolDescription {
    /// The definition of each message, by its method.
    func definitions(of group: String) -> [String: String] {
        let names = (schema["$defs", group, "anyOf"]?.entries ?? []).compactMap(SchemaValidator.name)
        return Dictionary(
            names.map { (schema["$defs", $0, "properties", "method", "const"]?.text ?? "?", $0) }
        ) { "\($0) and \($1)" }
    }

    func named(_ topic: Topic) -> [String] {
        switch topic {
        case .requests: definitions(of: "clientRequest").keys.map { $0 }
        case .notifications: definitions(of: "clientNotification").keys.map { $0 }
        case .serverRequests: definitions(of: "serverRequest").keys.map { $0 }
        case .serverNotifications: definitions(of: "serverNotification").keys.map { $0 }
        case .accesses: words(of: "access")
        case .readingOptions: words(of: "readingOption")
        case .messages: words(of: "presenterMessage")
        case .eventKinds: words(of: "eventKind")
        case .errorCodes:
            (schema["$defs", "errorCode", "anyOf"]?.entries ?? []).compactMap { $0["const"]?.number }
                .map { "\($0)" }
        }
    }

    private func words(of definition: String) -> [String] {
        (schema["$defs", definition, "enum"]?.entries ?? []).compactMap(\.text)
    }

    /// The names of the members of a definition, at any depth; not those inside the definitions in `without`.
    func members(of definition: String, without: Set<String> = []) -> Set<String> {
        var (found, seen): (Set<String>, Set<String>) = ([], without)
        var left = [definition]
        while let name = left.popLast() {
            guard seen.insert(name).inserted, let part = schema["$defs", name] else { continue }
            for part in SchemaValidator.parts(of: part) {
                found.formUnion(part["properties"]?.members.keys.map { $0 } ?? [])
                left += [SchemaValidator.name(in: part)].compactMap { $0 }
            }
        }
        return found
    }

    /// Each number that limits a member, as `purpose.maxLength`, without those of the integer types.
    var bounds: [String: Decimal] {
        let types = ["number", "count", "milliseconds", "pid", "user"]
        var found: [String: Decimal] = [:]
        for (name, definition) in schema["$defs"]?.members ?? [:] where !types.contains(name) {
            for (place, value) in definition.parts {
                guard case .member(let keyword) = place.last, let number = value.number else { continue }
                let names = place.compactMap { if case .member(let name) = $0 { name } else { nil } }
                guard names.dropLast().last != "properties", keyword != "const" else { continue }
                found[([name] + names.filter { $0 != "properties" }).joined(separator: ".")] = number
            }
        }
        return found
    }
}

// From the prose.
extension ProtocolDescription {
    func section(_ title: String) -> Substring {
        guard let start = prose.firstRange(of: "\n## \(title)\n") else { return "" }
        let rest = prose[start.upperBound...]
        return rest[..<(rest.firstRange(of: "\n## ")?.lowerBound ?? rest.endIndex)]
    }

    /// The cells of each row of the tables of a section, without their heads.
    func tables(in title: String) -> [[[String]]] {
        let lines = section(title).split(separator: "\n", omittingEmptySubsequences: false)
        return lines.split { !$0.hasPrefix("|") }.map { table in
            table.dropFirst(2).map { row in
                row.dropFirst().dropLast().split(separator: "|", omittingEmptySubsequences: false)
                    .map { $0.trimmingCharacters(in: .whitespaces) }
            }
        }
    }

    /// On one line, however it was wrapped.
    static func line(_ text: some StringProtocol) -> String {
        text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }

    /// The texts in backquotes.
    static func quoted(_ text: some StringProtocol) -> [String] {
        String(text).matches(of: /`([^`]+)`/).map { String($0.1) }
    }

    private func firstColumn(of title: String, table: Int = 0) -> [String] {
        let tables = tables(in: title)
        guard tables.indices.contains(table) else { return [] }
        return tables[table].flatMap { Self.quoted($0.first ?? "") }
    }

    private func quoted(after start: String, until end: String) -> [String] {
        let prose = Self.line(prose)
        guard let from = prose.firstRange(of: start)?.upperBound,
            let to = prose[from...].firstRange(of: end)?.lowerBound
        else { return [] }
        return Self.quoted(prose[from..<to])
    }

    func told(_ topic: Topic) -> [String] {
        switch topic {
        case .requests: firstColumn(of: "Requests of a client")
        case .notifications: firstColumn(of: "Requests of a client", table: 1)
        case .serverRequests: firstColumn(of: "Requests to a client")
        case .serverNotifications:
            firstColumn(of: "Notices to a client") + Self.quoted(section("Events")).prefix(1)
        case .accesses: quoted(after: "with `access` one of", until: ".")
        case .readingOptions: quoted(after: "have `options`, a", until: ". Granted")
        case .messages: quoted(after: "`messages` lists what the client implements, from", until: ".")
        case .eventKinds: firstColumn(of: "Events")
        case .errorCodes:
            (tables(in: "Errors").first ?? []).compactMap(\.first)
                .flatMap { $0.matches(of: /-\d+/).map { String($0.0) } }
        }
    }
}
