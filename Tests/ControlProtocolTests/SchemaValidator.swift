// SPDX-License-Identifier: Apache-2.0
import Foundation

/// The parts of JSON Schema 2020-12 that the schema of the protocol uses. Any other part of a schema is a fault, so that
/// nothing passes because it was not understood.
struct SchemaValidator {
    private static let annotations: Set<String> = ["$schema", "$id", "$defs", "title", "description"]
    private static let bounds: Set<String> = [
        "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    ]
    private static let rules: Set<String> = [
        "$ref", "type", "const", "enum", "pattern", "required", "properties", "items", "anyOf", "not",
    ]
    private static let prefix = "#/$defs/"

    let schema: JSONValue

    func isValid(_ value: JSONValue, as definition: String) -> Bool {
        faults(of: value, as: definition).isEmpty
    }

    /// The faults of a value, with their places.
    func faults(of value: JSONValue, as definition: String) -> [String] {
        faults(of: value, against: reference(to: definition), at: definition)
    }

    private func reference(to definition: String) -> JSONValue {
        .object(["$ref": .text(Self.prefix + definition)])
    }

    /// The definition that a part of the schema refers to.
    static func name(in schema: JSONValue) -> String? {
        schema["$ref"]?.text.flatMap { $0.hasPrefix(prefix) ? String($0.dropFirst(prefix.count)) : nil }
    }

    private func faults(of value: JSONValue, against rule: JSONValue, at place: String) -> [String] {
        rule.members.sorted { $0.key < $1.key }.flatMap { keyword, rule in
            faults(of: value, by: keyword, rule, at: place)
        }
    }

    private func faults(
        of value: JSONValue, by keyword: String, _ rule: JSONValue, at place: String
    ) -> [String] {
        switch keyword {
        case "$ref":
            let name = Self.name(in: .object([keyword: rule]))
            guard let target = name.flatMap({ schema["$defs", $0] }) else {
                return ["\(place): \(rule) leads nowhere"]
            }
            return faults(of: value, against: target, at: place)
        case "properties":
            return rule.members.sorted { $0.key < $1.key }.flatMap { name, rule in
                value[name].map { faults(of: $0, against: rule, at: "\(place).\(name)") } ?? []
            }
        case "items":
            return zip(0..., value.entries).flatMap { faults(of: $1, against: rule, at: "\(place)[\($0)]") }
        case "anyOf":
            let all = rule.entries.map { faults(of: value, against: $0, at: place) }
            return all.contains([]) ? [] : ["\(place): none of"] + all.joined()
        case "not":
            return faults(of: value, against: rule, at: place).isEmpty ? ["\(place): must not be so"] : []
        case _ where Self.annotations.contains(keyword): return []
        default: return Self.holds(keyword, rule, for: value) ? [] : ["\(place): \(keyword) \(rule)"]
        }
    }

    /// Keywords that concern no part inside the value. A rule for another kind of value holds.
    private static func holds(_ keyword: String, _ rule: JSONValue, for value: JSONValue) -> Bool {
        switch keyword {
        case "type": value.type == rule.text || value.type == "integer" && rule.text == "number"
        case "const": value == rule
        case "enum": rule.entries.contains(value)
        case "pattern": value.text.map { matches($0, rule.text ?? "") } ?? true
        case "required":
            value.type != "object" || rule.entries.allSatisfy { $0.text.map { value[$0] != nil } ?? false }
        case _ where bounds.contains(keyword): isInBounds(value, keyword, rule.number ?? 0)
        default: false
        }
    }

    private static func isInBounds(_ value: JSONValue, _ keyword: String, _ bound: Decimal) -> Bool {
        let size: Decimal? =
            switch (value, keyword.dropFirst(3)) {
            case (.number(let number), "imum"): number
            case (.text(let text), "Length"): Decimal(text.unicodeScalars.count)
            case (.list(let entries), "Items"): Decimal(entries.count)
            default: nil
            }
        guard let size else { return true }
        return keyword.hasPrefix("min") ? size >= bound : size <= bound
    }

    /// Schemas count characters by scalars, as patterns do.
    private static func matches(_ text: String, _ pattern: String) -> Bool {
        do {
            return try Regex(pattern).matchingSemantics(.unicodeScalar).firstMatch(in: text) != nil
        } catch {
            // It is no pattern, so nothing matches it.
            return false
        }
    }
}

// Faults of a schema itself, also without a value.
extension SchemaValidator {
    /// Parts that no message needs, names without a definition, and unknown keywords.
    func faultsOfSchema(usedBesides roots: some Sequence<String>) -> [String] {
        let defined = Set(schema["$defs"]?.members.keys.map { $0 } ?? [])
        let used = reached(from: [schema.with(nil, at: "$defs")] + roots.map { reference(to: $0) })
        return defined.subtracting(used).sorted().map { "nothing needs '\($0)'" }
            + used.subtracting(defined).sorted().map { "there is no '\($0)'" }
            + Self.parts(of: schema).flatMap { part in
                part.members.keys.filter { !Self.isKnown($0) }.map { "'\($0)' means nothing" }
            }
    }

    private static func isKnown(_ keyword: String) -> Bool {
        annotations.contains(keyword) || bounds.contains(keyword) || rules.contains(keyword)
    }

    private func reached(from roots: [JSONValue]) -> Set<String> {
        var (found, left): (Set<String>, [JSONValue]) = ([], roots)
        while let part = left.popLast() {
            for name in Self.parts(of: part).compactMap(Self.name) where found.insert(name).inserted {
                if let target = schema["$defs", name] { left.append(target) }
            }
        }
        return found
    }

    /// The schema and every schema in it.
    static func parts(of schema: JSONValue) -> [JSONValue] {
        let named = ["$defs", "properties"].flatMap { schema[$0]?.members.values.map { $0 } ?? [] }
        let others = ["items", "not"].compactMap { schema[$0] } + (schema["anyOf"]?.entries ?? [])
        return [schema] + (named + others).flatMap(parts)
    }
}
