// SPDX-License-Identifier: Apache-2.0
import Foundation

/// A JSON value: checked against a schema, and damaged for tests.
enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    case number(Decimal)
    case text(String)
    case list([JSONValue])
    case object([String: JSONValue])

    init(parsing bytes: [UInt8]) throws {
        self = try JSONDecoder().decode(JSONValue.self, from: Data(bytes))
    }

    func encoded() throws -> [UInt8] { Array(try JSONEncoder().encode(self)) }

    /// Its type in a schema. A number without a fraction is an integer, however it is written.
    var type: String {
        switch self {
        case .null: "null"
        case .bool: "boolean"
        case .number(let number): number.isWhole ? "integer" : "number"
        case .text: "string"
        case .list: "array"
        case .object: "object"
        }
    }

    var members: [String: JSONValue] { if case .object(let members) = self { members } else { [:] } }
    var entries: [JSONValue] { if case .list(let entries) = self { entries } else { [] } }
    var text: String? { if case .text(let text) = self { text } else { nil } }
    var number: Decimal? { if case .number(let number) = self { number } else { nil } }

    subscript(_ names: String...) -> JSONValue? {
        names.reduce(self) { value, name in value?.members[name] }
    }
}

extension Decimal {
    fileprivate var isWhole: Bool {
        var (number, rounded) = (self, Decimal())
        NSDecimalRound(&rounded, &number, 0, .plain)
        return rounded == self
    }
}

extension JSONValue: Codable {
    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        func read<Value: Decodable>(_ type: Value.Type) -> Value? {
            // The value is of one kind, and the other decodings fail.
            do { return try container.decode(type) } catch { return nil }
        }
        if container.decodeNil() {
            self = .null
        } else if let bool = read(Bool.self) {
            self = .bool(bool)
        } else if let number = read(Decimal.self) {
            self = .number(number)
        } else if let text = read(String.self) {
            self = .text(text)
        } else if let list = read([JSONValue].self) {
            self = .list(list)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let bool): try container.encode(bool)
        case .number(let number): try container.encode(number)
        case .text(let text): try container.encode(text)
        case .list(let list): try container.encode(list)
        case .object(let members): try container.encode(members)
        }
    }
}

// Damage for tests.
extension JSONValue {
    enum Step: Hashable, Sendable {
        case member(String)
        case entry(Int)
    }

    typealias Place = ArraySlice<Step>

    /// All parts, at any depth, with their places.
    var parts: [(place: Place, value: JSONValue)] {
        var found: [(place: Place, value: JSONValue)] = []
        collect(below: [], into: &found)
        return found
    }

    private func collect(below place: Place, into found: inout [(place: Place, value: JSONValue)]) {
        let steps = members.map { (Step.member($0), $1) } + entries.enumerated().map { (.entry($0), $1) }
        for (step, value) in steps {
            found.append((place + [step], value))
            value.collect(below: place + [step], into: &found)
        }
    }

    func value(at place: Place) -> JSONValue? {
        guard let step = place.first else { return self }
        switch step {
        case .member(let name): return members[name]?.value(at: place.dropFirst())
        case .entry(let index):
            return entries.indices.contains(index) ? entries[index].value(at: place.dropFirst()) : nil
        }
    }

    /// The value with another part in a place, or without the present part.
    func with(_ value: JSONValue?, at place: Place) -> JSONValue {
        guard let step = place.first else { return value ?? .null }
        let rest = place.dropFirst()
        let isLast = rest.isEmpty
        switch step {
        case .member(let name):
            var members = members
            members[name] = isLast ? value : (members[name] ?? .object([:])).with(value, at: rest)
            return .object(members)
        case .entry(let index):
            var entries = entries
            if isLast, value == nil {
                entries.remove(at: index)
            } else {
                entries[index] = entries[index].with(value, at: rest)
            }
            return .list(entries)
        }
    }

    func with(_ value: JSONValue?, at names: String...) -> JSONValue {
        with(value, at: Place(names.map { .member($0) }))
    }

    /// A value of each other kind, and a number that is no integer. A missing value (`null`) is not among them. The code takes
    /// it for a missing member, which a client need not know.
    var ofOtherKinds: [JSONValue] {
        let kinds: [JSONValue] = [.bool(true), .number(7), .text("a"), .list([]), .object([:])]
        let others = kinds.filter { $0.type != (type == "number" ? "integer" : type) }
        return number == nil ? others : others + [.number(1.5)]
    }
}
