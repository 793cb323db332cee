// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Testing

/// The schema and the prose of the protocol, checked against the code with an independent validator.
@Suite("The schema of the protocol")
struct SchemaTests {
    private static func requests() throws -> [SchemaSample] {
        try MessageSamples.requests.map { request in
            let bytes = try JSONCodec.encode(RequestMessage(id: .number(7), request))
            return SchemaSample(kind: "clientMessage", message: bytes) { message in
                guard
                    case .request(_, .success(let read))? = Self.attempt({
                        try ClientMessage(decoding: message)
                    })
                else { return false }
                return read.method == request.method
            }
        }
    }

    private static func notifications() throws -> [SchemaSample] {
        try MessageSamples.notifications.map { notification in
            let bytes = try JSONCodec.encode(NotificationMessage(notification))
            return SchemaSample(kind: "clientMessage", message: bytes) { message in
                if case .notification(.success(_?))? = Self.attempt({ try ClientMessage(decoding: message) })
                {
                    true
                } else {
                    false
                }
            }
        }
    }

    /// Messages with all members, as the server sends them. A client also accepts these messages without some of the members.
    private static func serverMessages() throws -> [SchemaSample] {
        try MessageSamples.serverMessages.map { message in
            SchemaSample(
                kind: "serverMessage", message: try message.encoded(), below: "params", toleratesRemoval: true
            ) { message in
                switch Self.attempt({ try IncomingMessage(decoding: message) }) {
                case .question, .noticeMessage, .event, .runSuspended: true
                case .response, .unknown, nil: false
                }
            }
        }
    }

    private static func results() throws -> [SchemaSample] {
        try ControlProtocol.ClientRequest.Method.allCases.flatMap { method in
            try MessageSamples.results(of: method).map { sample in
                let reply = try ReplyMessage(to: .number(1), .success(sample.response)).encoded()
                return SchemaSample(
                    kind: "reply", message: reply, resultOf: method.rawValue, below: "result",
                    toleratesRemoval: true, isRead: sample.isRead)
            }
        }
    }

    private static func attempt<Value>(_ body: () throws -> Value) -> Value? {
        // If the decoder throws any error, the code does not accept the message.
        do { return try body() } catch { return nil }
    }

    @Test("code, schema and documentation agree on every message, and on damaged forms of every message")
    func codeSchemaAndDocumentationAgreeOnEveryMessage() throws {
        let samples = try Self.requests() + Self.notifications() + Self.serverMessages() + Self.results()
        #expect(samples.count > 50)
        let differences = try ProtocolCheck().differences(on: samples)
        #expect(differences.isEmpty, "\(differences.joined(separator: "\n"))")
    }

    @Test("errors and answers match the schema")
    func errorsAndAnswersMatchTheSchema() throws {
        let details = ProtocolFailure.Details(
            holders: [MessageSamples.actor], suggestion: "wait",
            origin: OriginForm(domain: "d", code: 4, message: "m"))
        let failures = ProtocolFailure.Code.allCases.flatMap { code in
            [nil, details].map { ProtocolFailure(code: code.rawValue, message: "m", data: $0) }
        }
        let replies = try failures.flatMap { failure in
            try [nil, MessageID.number(1)].map { try ReplyMessage(to: $0, .failure(failure)).encoded() }
        }
        let answers = try MessageSamples.answers.map { try JSONCodec.encode($0) }
        let texts =
            replies.flatMap { reply in ["reply", "serverMessage"].map { ($0, reply) } }
            + answers.flatMap { answer in ["answer", "clientMessage"].map { ($0, answer) } }
        let verdicts = try ProtocolCheck().verdicts(
            on: texts.map { ($0.0, String(decoding: $0.1, as: UTF8.self)) })
        #expect(verdicts == Array(repeating: true, count: texts.count))
        let spoilt = [
            (definition: "answer", text: #"{"jsonrpc":"2.0","result":{}}"#),
            ("reply", #"{"jsonrpc":"2.0","id":1,"error":{"code":-32000}}"#),
            ("reply", #"{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}"#),
            ("reply", #"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#),
        ]
        #expect(try ProtocolCheck().verdicts(on: spoilt) == [false, false, false, false])
    }

    /// Messages that the server refuses because of the bytes that a base64 text encodes. A schema cannot check these bytes.
    private static let hidden: Set<String> = [
        #"{"pathBytes":"Li4=","messages":[]}"#, #"{"pathBytes":"AA==","messages":[]}"#,
        #"{"pathBytes":"Li4="}"#,
    ]

    @Test("the schema refuses each message that the server refuses because of its form")
    func theSchemaRefusesMalformedMessages() throws {
        let parameters =
            MalformedMessageTests.wrongParameters + ClientMessageTests.failures.map { ($0.0, $0.1) }
        let requests = parameters.map { #"{"jsonrpc":"2.0","id":"q","method":"\#($0.0)","params":\#($0.1)}"# }
        let others =
            ClientMessageTests.refused.filter { $0.1 == -32600 }.map(\.0)
            + MalformedMessageTests.wrongNotifications.map { #"{"jsonrpc":"2.0",\#($0)}"# }
        let verdicts = try ProtocolCheck().verdicts(on: (requests + others).map { ("clientMessage", $0) })
        let expected = parameters.map { Self.hidden.contains($0.1) } + others.map { _ in false }
        #expect(verdicts == expected)
    }

    @Test(
        "the check finds a planted change of the schema",
        arguments: [
            (["accessEndParams", "properties", "access", "$ref"], ##""#/$defs/purpose""##, "accessEnd"),
            (["accessEndParams", "required"], "[]", "the code refuses it"),
            (["accessEndParams", "properties", "access"], nil, "accessEnd has no 'access'"),
            (["accessEndParams", "properties", "force"], #"{"type":"boolean"}"#, "never writes 'force'"),
            (["number", "type"], #""number""#, "the code refuses it"),
            (["ps", "properties", "method", "const"], #""pst""#, "pst is in the schema"),
            (["access", "enum"], #"["read","write"]"#, "is missing in the schema (accesses)"),
            (["errorCode", "anyOf"], #"[{"const":1}]"#, "1 is in the schema (errorCodes) alone"),
            (["purpose", "maxLength"], "255", "purpose.maxLength is 255"),
            (["epoch"], #"{"type":"string"}"#, "nothing needs 'epoch'"),
            (["purpose", "maxlength"], "1", "'maxlength' means nothing"),
            (["cause", "properties", "terminal"], "{}", "does not tell of 'terminal'"),
        ])
    func theCheckFindsAPlantedChangeInTheSchema(place: [String], value: String?, found: String) throws {
        let check = ProtocolCheck(plantedInSchema: [(place, value)])
        let samples = try Self.requests().filter { $0.message.count < 100 }
        #expect(try check.differences(on: samples).contains { $0.contains(found) })
    }

    @Test(
        "the check finds a planted change of the documentation",
        arguments: [
            ("| `ps` |", "| `pst` |", "ps is missing"), ("| `moved` |", "| `renamed` |", "moved"),
            ("| -32004 |", "| -32044 |", "-32004"),
            ("`withoutChanges`", "`withoutAsking`", "withoutC"),
            ("| `presenter/remove` | `presenter` |", "| `presenter/remove` | `number` |", "has no 'number'"),
            ("nests at most 64", "nests at most 65", "65"), ("`onBehalfOf`", "`insteadOf`", "onBehalfOf"),
        ])
    func theCheckFindsAPlantedChangeInTheDocumentation(old: String, new: String, found: String) throws {
        let check = ProtocolCheck(plantedInProse: [(old, new)])
        #expect(try check.differences().contains { $0.contains(found) })
    }

    @Test("each capability of the server is a method of the protocol")
    func eachCapabilityOfTheServerIsAMethodOfTheProtocol() {
        let mount = MountForm(mountpoint: "/m", source: "/s", user: 1)
        let result = InitializeResult(version: "1", pid: 1, mount: mount)
        let known = ProtocolNames.names.filter { ["requests", "notifications"].contains($0.key) }.flatMap(
            \.value)
        #expect(Set(result.capabilities).isSubset(of: known))
    }
}
