// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Testing

/// JSON-RPC 2.0 section 5.1, for registrations and accesses: a malformed message gets a reply with the error.
struct MalformedMessageTests {
    static let wrongParameters: [(String, String)] = [
        ("presenter/register", "null"), ("presenter/register", "{}"), ("presenter/register", "[]"),
        ("presenter/register", #"{"path":"a"}"#), ("presenter/register", #"{"messages":[]}"#),
        ("presenter/register", #"{"path":7,"messages":[]}"#),
        ("presenter/register", #"{"path":"a","messages":"save"}"#),
        ("presenter/register", #"{"path":"a","messages":[7]}"#),
        ("presenter/register", #"{"path":"a","messages":["explode"]}"#),
        ("presenter/register", #"{"path":"/a","messages":[]}"#),
        ("presenter/register", #"{"path":"a/","messages":[]}"#),
        ("presenter/register", #"{"path":"a//b","messages":[]}"#),
        ("presenter/register", #"{"path":"./a","messages":[]}"#),
        ("presenter/register", #"{"path":"a/..","messages":[]}"#),
        ("presenter/register", #"{"path":"a\u0000b","messages":[]}"#),
        ("presenter/register", #"{"path":"a","pathBytes":"%%%","messages":[]}"#),
        ("presenter/register", #"{"pathBytes":"Li4=","messages":[]}"#),
        ("presenter/register", #"{"pathBytes":"AA==","messages":[]}"#),
        ("presenter/register", #"{"path":null,"pathBytes":null,"messages":[]}"#),
        ("presenter/remove", "{}"), ("presenter/remove", #"{"presenter":"1"}"#),
        ("presenter/remove", #"{"presenter":-1}"#), ("presenter/remove", #"{"presenter":1.5}"#),
        ("presenter/remove", #"{"presenter":99999999999999999999}"#),
        ("access/begin", "{}"), ("access/begin", #"{"intents":[]}"#), ("access/begin", #"{"intents":{}}"#),
        ("access/begin", #"{"intents":[{"path":"a"}]}"#),
        ("access/begin", #"{"intents":[{"path":"a","access":"write"}]}"#),
        ("access/begin", #"{"intents":[{"path":"a","access":["read"]}]}"#),
        ("access/begin", #"{"intents":[{"path":"a","access":"read","options":["fast"]}]}"#),
        ("access/begin", #"{"intents":[{"path":"a","access":"read","options":"withoutChanges"}]}"#),
        ("access/begin", #"{"intents":[{"path":"a","access":"updating","options":["withoutChanges"]}]}"#),
        ("access/begin", #"{"intents":[{"path":"a","access":"read"}],"within":1}"#),
        ("access/begin", #"{"intents":[{"path":"a","access":"read"}],"answering":{}}"#),
        (
            "access/begin",
            #"{"intents":[{"path":"a","access":"read"}],"answering":"#
                + #""\#(String(repeating: "a", count: ProtocolLimits.idBytes + 1))"}"#
        ),
        ("access/begin", #"{"intents":[{"path":"a","access":"read"}],"onBehalfOf":7}"#),
        ("presenter/register", #"{"path":"a","messages":[],"serverProcess":7}"#),
        ("presenter/register", #"{"path":"a","messages":[],"serverProcess":{"started":1}}"#),
        ("presenter/register", #"{"path":"a","messages":[],"serverProcess":{"pid":"1"}}"#),
        ("access/prepare", #"{"intents":[{"path":"a","access":"forReplacing"}]}"#),
        ("access/prepare", #"{"intents":[{"path":"a","access":"read","options":["resolvesSymbolicLink"]}]}"#),
        ("access/willMove", #"{"access":1,"path":"a"}"#),
        ("access/didMove", #"{"access":1,"path":"a","newPath":"../b"}"#),
        ("access/didMove", #"{"path":"a","newPath":"b"}"#),
        ("events/subscribe", #"{"path":"/"}"#),
        ("events/subscribe", #"{"after":7}"#),
        ("events/subscribe", #"{"after":{"epoch":"a"}}"#),
        ("events/subscribe", #"{"after":{"epoch":"\#(text(ProtocolLimits.epochBytes + 1))","sequence":1}}"#),
        ("initialize", #"{"client":{"name":"\#(text(ProtocolLimits.clientBytes + 1))"}}"#),
        (
            "initialize",
            #"{"client":{"name":"a","version":"\#(text(ProtocolLimits.clientBytes + 1))"}}"#
        ),
        ("events/unsubscribe", "{}"),
        ("access/begin", #"{"intents":[{"access":"read"}]}"#),
        ("access/begin", #"{"intents":[{"path":"..","access":"read"}]}"#),
        (
            "access/begin",
            #"{"intents":["#
                + [String](repeating: #"{"path":"a","access":"read"}"#, count: 65).joined(separator: ",")
                + "]}"
        ),
        ("access/begin", #"{"intents":[{"path":"a","access":"read"}],"purpose":""}"#),
        ("access/begin", #"{"intents":[{"path":"a","access":"read"}],"purpose":7}"#),
        ("access/begin", #"{"intents":[{"path":"a","access":"read"}],"purpose":"p","presenter":1}"#),
        ("access/begin", #"{"intents":[{"path":"a","access":"read"}],"presenter":"1"}"#),
        ("access/end", "{}"), ("access/end", #"{"access":null}"#), ("why", "{}"),
        ("why", #"{"path":"../x"}"#),
    ]

    private static func text(_ bytes: Int) -> String { String(repeating: "a", count: bytes) }

    @Test("a client's name and version, and an epoch, may be as long as their limits")
    func textsAtTheirLengthLimitsAreAccepted() throws {
        let (client, epoch) = (Self.text(ProtocolLimits.clientBytes), Self.text(ProtocolLimits.epochBytes))
        for (method, parameters) in [
            ("initialize", #"{"client":{"name":"\#(client)","version":"\#(client)"}}"#),
            ("events/subscribe", #"{"after":{"epoch":"\#(epoch)","sequence":1}}"#),
        ] {
            let text = #"{"jsonrpc":"2.0","id":1,"method":"\#(method)","params":\#(parameters)}"#
            guard case .request(_, .success) = try ClientMessage(decoding: Array(text.utf8)) else {
                return #expect(Bool(false), "it is understood")
            }
        }
    }

    @Test(
        "invalid parameters are refused with the request's id and a message of one line",
        arguments: wrongParameters)
    func invalidParametersAreRefusedWithAMessageOfOneLine(method: String, parameters: String) throws {
        let text = #"{"jsonrpc":"2.0","id":1,"method":"\#(method)","params":\#(parameters)}"#
        guard case .request(.number(1), let request) = try ClientMessage(decoding: Array(text.utf8)) else {
            return #expect(Bool(false), "the id is lost")
        }
        let failure = #expect(throws: ProtocolFailure.self) { try request.get() }
        #expect(failure?.code == -32602)
        #expect(failure?.message.contains("\n") == false)
        #expect(failure.map { $0.message.count < 600 } == true)
    }

    @Test(
        "a path, a name or an access's paths above the length limit are refused",
        arguments: [
            ("presenter/register", #"{"path":"\#(longestPath)a","messages":[]}"#),
            ("presenter/register", #"{"path":"a","messages":["\#(longestPath)a"]}"#),
            ("access/begin", intents(bytes: ProtocolLimits.accessPathBytes + 1)),
        ].map { (method: $0.0, parameters: TooLong(text: $0.1)) })
    func aTextAboveItsLengthLimitIsRefused(method: String, parameters: TooLong) throws {
        let text = #"{"jsonrpc":"2.0","id":1,"method":"\#(method)","params":\#(parameters.text)}"#
        guard case .request(_, .failure(let failure)) = try ClientMessage(decoding: Array(text.utf8)) else {
            return #expect(Bool(false), "it is refused")
        }
        #expect(failure.code == -32602)
        #expect(failure.message.utf8.count < 1000)
    }

    @Test("the paths of one access may have as many bytes as the limit")
    func thePathsOfOneAccessMayHaveAsManyBytesAsTheLimit() throws {
        let parameters = Self.intents(bytes: ProtocolLimits.accessPathBytes)
        let text = #"{"jsonrpc":"2.0","id":1,"method":"access/begin","params":\#(parameters)}"#
        guard case .request(_, .success) = try ClientMessage(decoding: Array(text.utf8)) else {
            return #expect(Bool(false), "it is understood")
        }
    }

    /// A text above a limit. The test prints its description, because the text is too long.
    struct TooLong: CustomTestStringConvertible {
        let text: String
        var testDescription: String { "\(text.prefix(20))… of \(text.utf8.count) bytes" }
    }

    private static let longestPath = String(repeating: "a", count: ProtocolLimits.pathBytes)

    /// A request for an access whose paths have the given number of bytes together.
    private static func intents(bytes: Int) -> String {
        var (paths, left) = ([String](), bytes)
        while left > 0 {
            paths.append(String(longestPath.prefix(left)))
            left -= paths.last?.utf8.count ?? left
        }
        let intents = paths.map { #"{"path":"\#($0)","access":"read"}"# }
        return #"{"intents":[\#(intents.joined(separator: ","))]}"#
    }

    @Test("the error for invalid parameters names the method and the member that is invalid")
    func theErrorForInvalidParametersNamesTheMemberThatIsInvalid() throws {
        func message(_ method: String, _ parameters: String) throws -> String? {
            let text = #"{"jsonrpc":"2.0","id":1,"method":"\#(method)","params":\#(parameters)}"#
            guard case .request(_, .failure(let failure)) = try ClientMessage(decoding: Array(text.utf8))
            else {
                return nil
            }
            return failure.message
        }
        #expect(try message("presenter/remove", "{}") == "'presenter/remove' needs 'presenter'")
        #expect(
            try message("presenter/remove", #"{"presenter":"x"}"#)
                == "'presenter' of 'presenter/remove' has the wrong form")
        #expect(try message("access/begin", #"{"intents":[{"path":"a"}]}"#)?.contains("access'") == true)
        #expect(try message("presenter/register", #"{"messages":[]}"#)?.contains("'path'") == true)
    }

    static let wrongNotifications = [
        #""method":"presenter/progress""#, #""method":"presenter/progress","params":{}"#,
        #""method":"$/cancelRequest","params":{"id":null}"#,
        #""method":"$/cancelRequest","params":[1]"#,
        #""method":"presenter/unsaved""#, #""method":"presenter/unsaved","params":{"presenter":1}"#,
        #""method":"presenter/unsaved","params":{"presenter":-1,"isUnsaved":true}"#,
        #""method":"presenter/unsaved","params":{"presenter":1,"isUnsaved":"yes"}"#,
    ]

    @Test("a notification with invalid parameters fails and gets no reply", arguments: wrongNotifications)
    func aNotificationWithInvalidParametersGetsNoReply(members: String) throws {
        let text = #"{"jsonrpc":"2.0",\#(members)}"#
        guard case .notification(.failure) = try ClientMessage(decoding: Array(text.utf8)) else {
            return #expect(Bool(false), "it is a notification of the wrong form")
        }
    }

    @Test("an unknown notification is ignored, whatever its parameters are")
    func anUnknownNotificationIsIgnored() throws {
        let text = #"{"jsonrpc":"2.0","method":"$/new","params":[[1]]}"#
        guard case .notification(.success(nil)) = try ClientMessage(decoding: Array(text.utf8)) else {
            return #expect(Bool(false), "it is ignored")
        }
    }

    private static func nested(_ levels: Int, whole: Bool) -> String {
        let opening = String(repeating: "[", count: levels)
        let inside = whole ? opening + String(repeating: "]", count: levels) : opening
        return #"{"jsonrpc":"2.0","id":1,"method":"status","params":{"a":\#(inside)\#(whole ? "}}" : "")"#
    }

    @Test(
        "a message that is nested too deeply is refused before it is decoded",
        arguments: [63, 10_000, 400_000])
    func aDeeplyNestedMessageIsRefused(levels: Int) {
        for whole in [true, false] {
            let bytes = Array(Self.nested(levels, whole: whole).utf8)
            #expect(throws: ProtocolFailure.nestedTooDeeply()) { try ClientMessage(decoding: bytes) }
            #expect(throws: ProtocolFailure.nestedTooDeeply()) { try IncomingMessage(decoding: bytes) }
        }
        let objects = String(repeating: #"{"a":"#, count: levels + 2)
        #expect(throws: ProtocolFailure.nestedTooDeeply()) {
            try ClientMessage(decoding: Array(objects.utf8))
        }
    }

    @Test("a message that is nested up to the limit is decoded; brackets in text do not count")
    func aMessageThatIsNestedUpToTheLimitIsDecoded() throws {
        let deepest = Self.nested(ProtocolLimits.nesting - 2, whole: true)
        guard case .request(_, .success(.status)) = try ClientMessage(decoding: Array(deepest.utf8)) else {
            return #expect(Bool(false), "it is read")
        }
        let brackets = String(repeating: #"[{\"\\"#, count: 100)
        let text = #"{"jsonrpc":"2.0","id":1,"method":"why","params":{"path":"\#(brackets)"}}"#
        guard case .request(_, .success(.why)) = try ClientMessage(decoding: Array(text.utf8)) else {
            return #expect(Bool(false), "it is read")
        }
    }

    @Test("a message with too many values is refused before it is decoded")
    func aMessageWithTooManyValuesIsRefused() throws {
        let number = 200_000
        let intents = String(repeating: #"{"path":"a"},"#, count: number) + #"{"path":"a"}"#
        let objects = String(repeating: #"{},"#, count: number) + "{}"
        let members = (0..<number).map { #""m\#($0)":0"# }.joined(separator: ",")
        for text in [
            #"{"jsonrpc":"2.0","id":1,"method":"access/begin","params":{"intents":[\#(intents)]}}"#,
            #"{"jsonrpc":"2.0","id":1,"method":"access/begin","params":{"within":[\#(objects)]}}"#,
            #"{"jsonrpc":"2.0","id":1,"method":"status","params":{\#(members)}}"#,
        ] {
            #expect(throws: ProtocolFailure.tooManyValues()) { try ClientMessage(decoding: Array(text.utf8)) }
        }
        // Brackets and braces inside a JSON string are not counted as nesting.
        let commas = String(repeating: "[,{", count: 5000)
        let path = #"{"jsonrpc":"2.0","id":1,"method":"why","params":{"path":"\#(commas)"}}"#
        #expect(throws: Never.self) { try ClientMessage(decoding: Array(path.utf8)) }
    }

    @Test("a request with the largest number of intents has far fewer values than the limit")
    func aRequestWithTheMostIntentsHasFarFewerValuesThanTheLimit() throws {
        let intent = #"{"path":"a","pathBytes":"YQ==","access":"read","options":["withoutChanges"]}"#
        let intents = Array(repeating: intent, count: ProtocolLimits.intents).joined(separator: ",")
        let within = (1...ProtocolLimits.intents).map { "\($0)" }.joined(separator: ",")
        let text =
            #"{"jsonrpc":"2.0","id":1,"method":"access/begin","params":{"intents":[\#(intents)],"within":[\#(within)]}}"#
        #expect(throws: Never.self) { try ClientMessage(decoding: Array(text.utf8)) }
        #expect(text.filter { ",[{".contains($0) }.count * 4 < ProtocolLimits.values)
    }

    @Test("names of members and methods above the length limit are refused")
    func aMemberNameAboveItsLimitIsRefused() throws {
        let name = String(repeating: "n", count: ProtocolLimits.nameBytes)
        let member = #"{"jsonrpc":"2.0","id":1,"method":"status","X":0}"#
        #expect(throws: Never.self) {
            try ClientMessage(decoding: Array(member.replacing("X", with: name).utf8))
        }
        for longer in [name + "n", String(repeating: #"\""#, count: 200)] {
            let text = member.replacing("X", with: longer)
            #expect(throws: ProtocolFailure.nameTooLong()) { try ClientMessage(decoding: Array(text.utf8)) }
        }
        let method = #"{"jsonrpc":"2.0","id":1,"method":"X"}"#
        let failure = #expect(throws: ProtocolFailure.self) {
            try ClientMessage(decoding: Array(method.replacing("X", with: name + "n").utf8))
        }
        #expect(failure?.message.contains("'method'") ?? false)
    }

    @Test("invalid UTF-8, zero bytes and UTF-16 are refused as JSON")
    func onlyUTF8TextIsJSON() {
        let text = #"{"jsonrpc":"2.0","id":1,"method":"status"}"#
        let wide = text.utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        for bytes in [wide, [0xFF, 0xFE] + wide, Array(text.utf8) + [0], [0xC3, 0x28], [0xED, 0xA0, 0x80]] {
            let failure = #expect(throws: ProtocolFailure.self) { try ClientMessage(decoding: bytes) }
            #expect(failure?.code == -32700)
        }
        var invalid = Array(#"{"jsonrpc":"2.0","id":1,"method":"why","params":{"path":"X"}}"#.utf8)
        for index in invalid.indices where invalid[index] == UInt8(ascii: "X") { invalid[index] = 0xFF }
        #expect(throws: ProtocolFailure.self) { try ClientMessage(decoding: invalid) }
    }

    /// Two combining marks: as characters, as JSON escapes, and as JSON escapes of surrogate pairs.
    private static let marks = ["\u{0316}\u{0301}", #"\u0316\u0301"#, #"\ud834\udd65\ud834\udd66"#]

    /// Each argument has two marks. Characters such as U+1D165 need two JSON escapes, and their two halves are one mark.
    @Test(
        "many combining marks in a row are refused before any comparison, which would take minutes",
        arguments: marks)
    func manyCombiningMarksInARowAreRefused(pair: String) {
        let many = String(repeating: pair, count: 80_000)
        for text in [
            #"{"jsonrpc":"2.0","id":1,"method":"\#(many)"}"#, #"{"jsonrpc":"2.0","id":1,"\#(many)":0}"#,
            #"{"jsonrpc":"2.0","id":"a\#(many)","method":"status"}"#,
        ] {
            #expect(throws: ProtocolFailure.tooManyMarks()) { try ClientMessage(decoding: Array(text.utf8)) }
            #expect(throws: ProtocolFailure.tooManyMarks()) {
                try IncomingMessage(decoding: Array(text.utf8))
            }
        }
    }

    @Test("a text may have as many combining marks in a row as a file name", arguments: marks)
    func aTextMayHaveAsManyCombiningMarksAsAFileName(pair: String) throws {
        let name = String(repeating: pair, count: ProtocolLimits.combiningMarks / 2)
        for path in [name, String(repeating: name + "a", count: 3), #"\n\\"# + name] {
            let text = #"{"jsonrpc":"2.0","id":1,"method":"why","params":{"path":"\#(path)"}}"#
            guard case .request(_, .success(.why)) = try ClientMessage(decoding: Array(text.utf8)) else {
                return #expect(Bool(false), "it is read")
            }
        }
        let one = String(repeating: pair, count: ProtocolLimits.combiningMarks / 2) + "\u{0301}"
        #expect(throws: ProtocolFailure.tooManyMarks()) {
            try ClientMessage(decoding: Array(#"{"\#(one)":1}"#.utf8))
        }
    }

    @Test("a request's id above the length limit is refused")
    func anIDAboveItsLimitIsRefused() {
        let id = String(repeating: "i", count: ProtocolLimits.idBytes)
        let text = #"{"jsonrpc":"2.0","id":"X","method":"status"}"#
        #expect(throws: Never.self) { try ClientMessage(decoding: Array(text.replacing("X", with: id).utf8)) }
        let failure = #expect(throws: ProtocolFailure.self) {
            try ClientMessage(decoding: Array(text.replacing("X", with: id + "i").utf8))
        }
        #expect(failure?.code == -32600)
        #expect(failure?.message.contains("id") == true)
    }

    @Test("if a request has both path and pathBytes, only pathBytes is used")
    func pathBytesIsUsedRatherThanPath() throws {
        let other = String(repeating: "b", count: 100_000)
        let text =
            #"{"jsonrpc":"2.0","id":1,"method":"why","params":{"path":"\#(other)","pathBytes":"YQ=="}}"#
        guard case .request(_, .success(.why(let parameters))) = try ClientMessage(decoding: Array(text.utf8))
        else {
            return #expect(Bool(false), "it is read")
        }
        #expect(parameters.path == PathForm("a", nil))
    }
}
