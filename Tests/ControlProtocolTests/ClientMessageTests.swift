// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Testing

struct ClientMessageTests {
    /// JSON-RPC 2.0 section 5.1: code -32700 for invalid JSON, -32600 for an invalid request, -32601 for an unknown method, and
    /// -32602 for parameters of the wrong form.
    static let refused: [(String, Int)] = [
        ("", -32700), ("{", -32700), ("nonsense", -32700),
        (String(repeating: "[", count: 100_000), -32700),
        ("{\"a\":" + String(repeating: "{\"a\":", count: 50_000), -32700),
        ("null", -32600), ("[]", -32600), ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}]", -32600),
        ("42", -32600), ("{}", -32600), ("{\"jsonrpc\":\"1.0\",\"method\":\"status\"}", -32600),
        ("{\"jsonrpc\":2.0,\"method\":\"status\"}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"status\"}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"status\"}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"status\"}", -32600),
    ]

    @Test("an invalid request gets the error code that JSON-RPC defines for it", arguments: refused)
    func anInvalidRequestGetsTheJSONRPCErrorCode(text: String, code: Int) {
        let failure = #expect(throws: ProtocolFailure.self) { try ClientMessage(decoding: Array(text.utf8)) }
        #expect(failure?.code == code)
    }

    @Test(
        "a message that is not UTF-8 is refused",
        arguments: [[0xFF], [0x7B, 0x22, 0xC3, 0x22, 0x7D]] as [[UInt8]])
    func textThatIsNotUTF8IsRefused(bytes: [UInt8]) {
        #expect(throws: ProtocolFailure.self) { try ClientMessage(decoding: bytes) }
    }

    static let failures: [(String, String, Int)] = [
        ("history/list", #"{"path":".."}"#, -32602), ("history/list", #"{"limit":0}"#, -32602),
        ("history/list", #"{"since":-1}"#, -32602), ("history/watch", #"{"after":-1}"#, -32602),
        ("config/show", "{}", -32602), ("config/show", #"{"path":".."}"#, -32602),
        ("present", "{}", -32601), ("", "{}", -32601), ("versions/show", "null", -32602),
        ("versions/show", "{}", -32602), ("versions/show", "[]", -32602),
        ("versions/show", #"{"id":"0123456789abcdef","offset":0}"#, -32602),
        ("versions/show", #"{"id":"0123456789abcdef","offset":-1,"length":1}"#, -32602),
        ("versions/show", #"{"id":"0123456789abcdef","offset":0,"length":0}"#, -32602),
        ("versions/show", #"{"id":"0123456789abcdef","offset":0,"length":524289}"#, -32602),
        ("versions/show", #"{"id":"../etc/passwd","offset":0,"length":1}"#, -32602),
        ("versions/show", #"{"id":"","offset":0,"length":1}"#, -32602),
        ("versions/show", #"{"id":"0123456789abcde","offset":0,"length":1}"#, -32602),
        ("versions/show", #"{"id":"0123456789ABCDEF","offset":0,"length":1}"#, -32602),
        ("versions/show", #"{"id":"0123456789abcde/","offset":0,"length":1}"#, -32602),
        ("versions/list", #"{"path":7}"#, -32602), ("versions/list", #"{"path":".."}"#, -32602),
        ("versions/list", #"{"path":"a/../b"}"#, -32602), ("versions/list", #"{"path":"/etc"}"#, -32602),
        ("versions/list", #"{"path":"a\u0000b"}"#, -32602), ("versions/list", #"{"pathBytes":"!"}"#, -32602),
        ("versions/list", #"{"pathBytes":"Li4="}"#, -32602),
        ("versions/show", #"{"id":"0123456789abcdef","offset":0,"length":1,"path":"a/.."}"#, -32602),
        ("versions/list", #"{"before":"x"}"#, -32602), ("versions/list", #"{"since":"x"}"#, -32602),
        ("versions/list", #"{"by":7}"#, -32602), ("versions/resolve", "{}", -32602),
        ("versions/resolve", #"{"path":"a","ids":[]}"#, -32602),
        ("versions/resolve", #"{"path":"a","ids":["../x"]}"#, -32602),
        ("versions/remove", #"{"path":"a"}"#, -32602),
        ("versions/remove", #"{"path":"..","ids":["0123456789abcdef"]}"#, -32602),
        ("versions/prune", "{}", -32602), ("versions/prune", #"{"path":"a","until":"x"}"#, -32602),
        ("versions/keep", "null", -32602), ("versions/keep", "{}", -32602),
        ("versions/keep", #"{"path":".."}"#, -32602),
        ("versions/keep", #"{"path":"a","contents":{"path":"../b"}}"#, -32602),
        ("generation", "{}", -32602), ("generation", #"{"path":"/a"}"#, -32602),
        (
            "access/begin", #"{"intents":[{"path":"a","access":"read","ifGeneration":"e1-1"}]}"#, -32602
        ),
        ("access/begin", #"{"intents":[{"path":"a","access":"updating","ifGeneration":""}]}"#, -32602),
        ("access/begin", #"{"intents":[{"path":"a","access":"updating","ifGeneration":"12"}]}"#, -32602),
        ("access/begin", #"{"intents":[{"path":"a","access":"updating","ifGeneration":7}]}"#, -32602),
        ("initialize", #"{"protocol":{"min":"a"}}"#, -32602),
    ]

    @Test(
        "the error for a request with invalid parameters still has the id of the request", arguments: failures
    )
    func theErrorForARequestWithInvalidParametersHasTheRequestsID(
        method: String, parameters: String, code: Int
    ) throws {
        let text = #"{"jsonrpc":"2.0","id":"q","method":"\#(method)","params":\#(parameters)}"#
        guard case .request(.text("q"), let request) = try ClientMessage(decoding: Array(text.utf8)) else {
            return #expect(Bool(false), "the id is lost")
        }
        let failure = #expect(throws: ProtocolFailure.self) { try request.get() }
        #expect(failure?.code == code)
    }

    static let requests: [ClientRequest] = [
        .initialize(InitializeParameters(client: "test", version: "1")), .status,
        .listVersions(VersionListParameters(path: [])),
        .listVersions(VersionListParameters(path: Array("a/b c".utf8))),
        .listVersions(VersionListParameters(path: [0x61, 0xFF, 0x2F, 0x62])),
        .readVersion(VersionReadParameters(id: "0123456789abcdef", offset: 1 << 40, length: 512 << 10)),
        .readVersion(
            VersionReadParameters(id: "0123456789abcdef", offset: 0, length: 1, of: [0x61, 0xFF, 0x2F, 0x62])),
        .preserveVersion(PreserveParameters(path: [0x61, 0xFF, 0x2F, 0x62])),
        .showSettings(SettingsParameters(path: [0x61, 0xFF, 0x2F, 0x62])),
        .beginRun(RunBeginParameters(name: "build")),
        .beginRun(
            RunBeginParameters(name: "é", write: ["a/**"], read: ["*.md", "b?"], isUncoordinated: true)),
        .endRun(RunEndParameters(run: UInt64.max)),
        .listVersions(
            VersionListParameters(
                path: Array("a".utf8), before: "0123456789abcdef", since: 1.5, by: "agent-1")),
        .resolveVersions(VersionSelectionParameters(path: Array("a".utf8))),
        .resolveVersions(
            VersionSelectionParameters(path: [0x61, 0xFF, 0x2F, 0x62], ids: ["0123456789abcdef"])),
        .removeVersions(
            VersionSelectionParameters(path: [0x61, 0xFF, 0x2F, 0x62], ids: ["0123456789abcdef"])),
        .pruneVersions(VersionPruneParameters(path: Array("a".utf8))),
        .pruneVersions(VersionPruneParameters(path: [0x61, 0xFF, 0x2F, 0x62], until: 12.5)),
        .listHistory(HistoryListParameters()),
        .listHistory(
            HistoryListParameters(path: [0x61, 0xFF], since: 1.5, by: "agent", limit: 1000, before: 9)),
        .watchHistory(HistoryWatchParameters()),
        .watchHistory(HistoryWatchParameters(path: [0x61, 0xFF], after: 3)),
    ]

    @Test("the server decodes each request that a client encodes to an equal request", arguments: requests)
    func theServerDecodesEachRequestThatAClientEncodes(request: ClientRequest) throws {
        let bytes = try JSONCodec.encode(RequestMessage(id: .number(7), request))
        guard case .request(.number(7), let read) = try ClientMessage(decoding: bytes) else {
            return #expect(Bool(false), "the id is lost")
        }
        #expect(try read.get() == request)
        #expect(!bytes.contains(UInt8(ascii: "\n")))
    }

    @Test("unknown members of a request are ignored")
    func unknownMembersAreIgnored() throws {
        let text =
            #"{"jsonrpc":"2.0","id":1,"method":"versions/list","params":{"path":"a","new":[1]},"x":{}}"#
        guard case .request(_, let request) = try ClientMessage(decoding: Array(text.utf8)) else {
            return #expect(Bool(false), "it is a request")
        }
        #expect(try request.get() == .listVersions(VersionListParameters(path: Array("a".utf8))))
    }

    @Test("a client decodes each reply and error that the server encodes")
    func aClientDecodesEachReplyAndErrorThatTheServerEncodes() throws {
        let content: [UInt8] = Array(0...255)
        let reply = ReplyMessage(
            to: .number(3), .success(.readVersion(VersionReadResult(content: content, isAtEnd: true))))
        let message = try ResponseMessage<VersionReadResult>(decoding: reply.encoded())
        #expect(message.id == .number(3))
        #expect(try message.outcome.get().bytes == content)

        let refusal = try ResponseMessage<VersionReadResult>(
            decoding: ReplyMessage(to: nil, .failure(.notJSON())).encoded())
        #expect(refusal.id == nil)
        #expect(throws: ProtocolFailure.notJSON()) { try refusal.outcome.get() }
    }

    @Test("the methods' names of earlier releases are understood")
    func formerNamesAreUnderstood() throws {
        for (name, parameters) in [
            ("kept/list", #"{"path":"a"}"#),
            ("kept/read", #"{"id":"0123456789abcdef","offset":0,"length":1}"#),
            ("kept/keep", #"{"path":"a"}"#),
        ] {
            let text = #"{"jsonrpc":"2.0","id":1,"method":"\#(name)","params":\#(parameters)}"#
            guard case .request(.number(1), .success) = try ClientMessage(decoding: Array(text.utf8)) else {
                Issue.record("\(name) is not understood")
                continue
            }
        }
    }

    @Test("the reply with the most bytes of a version fits into one message")
    func theReplyWithTheMostBytesFitsIntoOneMessage() throws {
        let content = [UInt8](repeating: 0xFF, count: ProtocolLimits.readBytes)
        let reply = ReplyMessage(
            to: .text(String(repeating: "x", count: 1000)),
            .success(.readVersion(VersionReadResult(content: content, isAtEnd: false))))
        #expect(try reply.encoded().count <= ProtocolLimits.messageBytes)
    }

    @Test("a path that is not UTF-8 is also sent as base64 in pathBytes")
    func aPathThatIsNotUTF8IsSentAsBase64() throws {
        #expect(PathForm(Array("e\u{301}".utf8)).pathBytes == nil)
        let invalid: [UInt8] = [0x66, 0xFE]
        let form = PathForm(invalid)
        #expect(form.pathBytes != nil)
        #expect(form.bytes == invalid)
    }
}
