// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Foundation
import Testing

/// Issue 5, "The protocol": a schema of every message, checked against the code.
struct SchemaTests {
    private let agreement: SchemaAgreement

    init() throws { agreement = SchemaAgreement(try ProtocolDescription()) }

    @Test(
        "requests of a client follow the schema, and the server refuses what the schema refuses",
        arguments: ControlProtocol.ClientRequest.Method.allCases)
    func requestsMatchSchema(method: ControlProtocol.ClientRequest.Method) throws {
        let samples = MessageSamples.requests.filter { $0.method == method }
        #expect(!samples.isEmpty)
        #expect(try agreement.disagreements(onMembersOf: samples) == [])
        for sample in samples { #expect(try agreement.disagreements(on: sample) == []) }
    }

    @Test("so do its notifications")
    func notificationsMatchSchema() throws {
        let samples = MessageSamples.notifications
        #expect(Set(samples.map(\.method)) == Set(ClientNotification.Method.allCases))
        for sample in samples { #expect(try agreement.disagreements(on: sample) == []) }
    }

    @Test("and its answers; but no answer is refused")
    func answersMatchSchema() throws {
        for answer in MessageSamples.answers {
            let message = try JSONValue(parsing: JSONCodec.encode(answer))
            for definition in ["answer", "clientMessage"] {
                #expect(agreement.isValid(message, as: definition))
            }
            #expect(!agreement.isValid(message.with(nil, at: "id"), as: "answer"))
        }
    }

    @Test(
        "requests and notices of a server follow the schema, and the client reads what the schema allows",
        arguments: MessageSamples.serverMessages)
    func serverMessages(message: ServerMessage) throws {
        #expect(try agreement.disagreements(on: message) == [])
    }

    @Test("with every member that the schema knows, and no other")
    func serverMembers() throws {
        #expect(try agreement.disagreements(onMembersOf: MessageSamples.serverMessages) == [])
    }

    @Test("so do its replies", arguments: ControlProtocol.ClientRequest.Method.allCases)
    func resultsMatchSchema(method: ControlProtocol.ClientRequest.Method) throws {
        let samples = MessageSamples.results(of: method)
        #expect(!samples.isEmpty)
        #expect(try agreement.disagreements(onMembersOf: samples, of: method) == [])
        for sample in samples { #expect(try agreement.disagreements(on: sample, of: method) == []) }
    }

    @Test("so do its errors", arguments: ProtocolFailure.Code.allCases)
    func errorsMatchSchema(code: ProtocolFailure.Code) throws {
        let details = ProtocolFailure.Details(
            holders: [MessageSamples.actor], suggestion: "wait",
            origin: OriginForm(domain: "d", code: 4, message: "m"))
        for data in [nil, details] {
            let failure = ProtocolFailure(code: code.rawValue, message: "m", data: data)
            for id in [nil, MessageID.number(1)] {
                let reply = try JSONValue(parsing: ReplyMessage(to: id, .failure(failure)).encoded())
                for definition in ["reply", "serverMessage"] {
                    #expect(agreement.isValid(reply, as: definition))
                }
                for member in ["code", "message"] {
                    let spoilt = reply.with(nil, at: "error", member)
                    #expect(!agreement.isValid(spoilt, as: "reply"))
                    #expect(throws: (any Error).self) {
                        try ResponseMessage<EmptyResult>(decoding: spoilt.encoded())
                    }
                }
                #expect(!agreement.isValid(reply.with(.number(-1), at: "error", "code"), as: "reply"))
            }
        }
    }

    /// A schema cannot see the contents of base64.
    private static let hidden: Set<String> = [
        #"{"pathBytes":"Li4=","messages":[]}"#, #"{"pathBytes":"AA==","messages":[]}"#,
        #"{"pathBytes":"Li4="}"#,
    ]

    @Test(
        "the schema refuses each message that the server refuses for its form",
        arguments: MalformedMessageTests.wrongParameters + ClientMessageTests.failures.map { ($0.0, $0.1) })
    func wrongParameters(method: String, parameters: String) throws {
        let text = #"{"jsonrpc":"2.0","id":"q","method":"\#(method)","params":\#(parameters)}"#
        let message = try JSONValue(parsing: Array(text.utf8))
        #expect(agreement.isValid(message, as: "clientMessage") == Self.hidden.contains(parameters))
    }

    @Test(
        "a message that no client may send is refused by the schema",
        arguments: ClientMessageTests.refused.filter { $0.1 == -32600 }.map(\.0)
            + MalformedMessageTests.wrongNotifications.map { #"{"jsonrpc":"2.0",\#($0)}"# })
    func invalidMessagesFailSchema(text: String) throws {
        #expect(!agreement.isValid(try JSONValue(parsing: Array(text.utf8)), as: "clientMessage"))
    }

    /// A change of the schema that is no change of the code: its place and its value.
    static let planted: [([String], JSONValue?)] = [
        (["accessEndParams", "properties", "access", "$ref"], .text("#/$defs/purpose")),
        (["accessEndParams", "required"], .list([])),
        (["accessEndParams", "properties", "access"], nil),
        (["accessEndParams", "required"], .list([.text("access"), .text("turn")])),
        (["accessEndParams", "required"], .list([.text("Access")])),
        (["accessEnd", "required"], .list([.text("jsonrpc"), .text("method"), .text("params")])),
        (["accessEnd", "properties", "method", "const"], .text("access/finish")),
        (["accessEnd", "properties", "params", "$ref"], .text("#/$defs/accessFinishParams")),
        (["accessEndParams", "properties", "force"], .object(["type": .text("boolean")])),
        (["number", "type"], .text("number")),
        (["number", "type"], .text("count")),
    ]

    @Test("a difference in the schema is found", arguments: planted)
    func plantedDifferences(place: [String], value: JSONValue?) throws {
        var description = try ProtocolDescription()
        let steps = JSONValue.Place((["$defs"] + place).map { .member($0) })
        description.schema = description.schema.with(value, at: steps)
        let request = ControlProtocol.ClientRequest.endAccess(AccessEndParameters(access: 1))
        let agreement = SchemaAgreement(description)
        let members = try agreement.disagreements(onMembersOf: [request])
        #expect(try members + agreement.disagreements(on: request) != [])
    }
}
