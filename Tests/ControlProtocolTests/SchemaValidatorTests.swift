// SPDX-License-Identifier: Apache-2.0
import Testing

/// A validator that finds nothing would make every check pass.
struct SchemaValidatorTests {
    /// A schema, a value it allows and one it does not.
    static let rules: [(String, String, String)] = [
        (#"{"type":"object"}"#, "{}", "[]"), (#"{"type":"array"}"#, "[]", "{}"),
        (#"{"type":"string"}"#, #""""#, "1"), (#"{"type":"boolean"}"#, "false", "0"),
        (#"{"type":"null"}"#, "null", "false"), (#"{"type":"number"}"#, "1.5", #""1""#),
        (#"{"type":"integer"}"#, "1", "1.5"), (#"{"type":"integer"}"#, "1.0", "true"),
        (#"{"const":"a"}"#, #""a""#, #""b""#), (#"{"enum":["a",1]}"#, "1", "2"),
        (#"{"minimum":2}"#, "2", "1"), (#"{"maximum":2}"#, "2", "3"),
        (#"{"maximum":18446744073709551615}"#, "18446744073709551615", "18446744073709551616"),
        (#"{"minLength":1}"#, #""a""#, #""""#), (#"{"maxLength":1}"#, #""\u0301""#, #""a\u0301""#),
        (#"{"minItems":1}"#, "[1]", "[]"), (#"{"maxItems":1}"#, "[1]", "[1,2]"),
        (#"{"pattern":"^[a-f]{2}$"}"#, #""ab""#, #""abc""#), (#"{"pattern":"^a$"}"#, #""a""#, #""a\nb""#),
        (#"{"pattern":"["}"#, "1", #""[""#),
        (#"{"required":["a"]}"#, #"{"a":null}"#, #"{"b":1}"#), (#"{"required":["a"]}"#, "1", "{}"),
        (#"{"properties":{"a":{"type":"string"}}}"#, #"{"b":1}"#, #"{"a":1}"#),
        (#"{"items":{"type":"string"}}"#, #"["a"]"#, #"["a",1]"#),
        (#"{"anyOf":[{"const":1},{"const":2}]}"#, "2", "3"),
        (#"{"not":{"required":["a","b"]}}"#, #"{"a":1}"#, #"{"a":1,"b":1}"#),
        (##"{"$ref":"#/$defs/text"}"##, #""a""#, "1"),
        (##"{"$ref":"#/$defs/text","minLength":2}"##, #""ab""#, #""a""#),
        (##"{"properties":{"a":{"items":{"$ref":"#/$defs/text"}}}}"##, #"{"a":["a"]}"#, #"{"a":[{}]}"#),
    ]

    private func isValid(_ value: String, by rule: String) throws -> Bool {
        let text = #"{"$defs":{"text":{"type":"string"},"rule":\#(rule)}}"#
        let validator = SchemaValidator(schema: try JSONValue(parsing: Array(text.utf8)))
        return validator.isValid(try JSONValue(parsing: Array(value.utf8)), as: "rule")
    }

    @Test("each keyword of a schema has its meaning", arguments: rules)
    func oneRule(rule: String, right: String, wrong: String) throws {
        #expect(try isValid(right, by: rule))
        #expect(try !isValid(wrong, by: rule))
    }

    @Test(
        "no value is valid by a schema with an unknown keyword",
        arguments: [
            #"{"oneOf":[]}"#, ##"{"$ref":"#/$defs/nothing"}"##, #"{"$ref":"text"}"#, #"{"type":["string"]}"#,
            #"{"type":"text"}"#, #"{"anyOf":[]}"#, #"{"additionalProperties":false}"#,
        ])
    func unknownSchemaWordValidatesNothing(rule: String) throws {
        for value in [#""a""#, "{}", "1"] { #expect(try !isValid(value, by: rule)) }
    }

    @Test("an error is named, with its place")
    func faultsNameTheirPlace() throws {
        let text = #"{"$defs":{"a":{"properties":{"b":{"items":{"required":["c"]}}}}}}"#
        let validator = SchemaValidator(schema: try JSONValue(parsing: Array(text.utf8)))
        let value = try JSONValue(parsing: Array(#"{"b":[{"c":1},{}]}"#.utf8))
        let faults = validator.faults(of: value, as: "a")
        #expect(faults.count == 1)
        #expect(faults.first?.hasPrefix("a.b[1]: required") == true)
    }

    @Test("a value is damaged in every place")
    func spoilsEveryPlace() throws {
        let value = try JSONValue(parsing: Array(#"{"a":[1,{"b":"c"}],"d":null}"#.utf8))
        #expect(value.parts.count == 5)
        for (place, part) in value.parts {
            #expect(value.value(at: place) == part)
            #expect(value.with(nil, at: place) != value)
            #expect(value.with(.text("x"), at: place).value(at: place) == .text("x"))
            #expect(value.with(part, at: place) == value)
        }
        #expect(try JSONValue(parsing: value.encoded()) == value)
    }
}
