// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Testing

/// "JSON-RPC 2.0 over a Unix stream socket, one message per line; the server also accepts
/// Content-Length framing, recognised by the first byte, and answers in kind."
struct FramingTests {
    static let streams: [(String, Framing, [String])] = [
        ("{\"a\":1}\n", .lines, ["{\"a\":1}"]),
        ("{\"a\":1}\r\n\n  \n{}\n", .lines, ["{\"a\":1}\r", "{}"]),
        ("Content-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n{\n}", .contentLength, ["{}", "{\n}"]),
        ("content-length:2\r\nContent-Type: x; charset=utf-8\r\n\r\n{}", .contentLength, ["{}"]),
        ("Content-Length: 0\r\n\r\n", .contentLength, [""]),
        ("\u{16}\u{3}\u{1}\n \t\r\n", .lines, ["\u{16}\u{3}\u{1}"]),
        ("garbage\nmore\n", .lines, ["garbage", "more"]),
        ("{\"unfinished\"", .lines, []),
        ("Content-Length: 5\r\n\r\n{}", .contentLength, []),
        ("", .lines, []),
    ]

    @Test(
        "a stream has the same messages, whatever the size of the pieces in which the stream arrives",
        arguments: streams)
    func aStreamHasTheSameMessagesWhateverTheSizeOfItsPieces(
        stream: String, framing: Framing, messages: [String]
    ) throws {
        let bytes = Array(stream.utf8)
        for pieceSize in 1...max(1, bytes.count) {
            var reader = FrameReader()
            var found: [String] = []
            for begin in Swift.stride(from: 0, to: bytes.count, by: pieceSize) {
                reader.append(bytes[begin..<min(begin + pieceSize, bytes.count)])
                while let message = try reader.next() {
                    found.append(String(decoding: message, as: UTF8.self))
                }
            }
            #expect(found == messages, "pieces of \(pieceSize)")
            if !bytes.isEmpty { #expect(reader.framing == framing) }
        }
    }

    @Test("a message line above the length limit is refused, whether the line is complete or not")
    func aMessageLineAboveTheLengthLimitIsRefused() throws {
        var reader = FrameReader(limit: 8)
        reader.append("12345678\n".utf8)
        #expect(try reader.next() == Array("12345678".utf8))
        reader.append("123456789".utf8)
        #expect(throws: FramingFault.oversized(limit: 8)) { try reader.next() }
        var whole = FrameReader(limit: 8)
        whole.append("123456789\n{}\n".utf8)
        #expect(throws: FramingFault.oversized(limit: 8)) { try whole.next() }
    }

    static let badHeaders: [(String, FramingFault)] = [
        ("Content-Length: 9\r\n\r\n", .oversized(limit: 8)),
        ("Content-Length: -1\r\n\r\n", .malformedHeader),
        ("Content-Length: 99999999999999999999\r\n\r\n", .malformedHeader),
        ("Content-Length: x\r\n\r\n", .malformedHeader),
        ("Content-Length: \r\n\r\n", .malformedHeader),
        ("Content-Length: 1\r\nContent-Length: 2\r\n\r\n", .malformedHeader),
        ("Content-Type: x\r\n\r\n", .malformedHeader),
        ("Cabbage\r\n\r\n", .malformedHeader),
        ("Content-Length: 2\r\nX\u{316}\u{301}: y\r\n\r\n", .malformedHeader),
        (String(repeating: "C", count: 5000), .malformedHeader),
    ]

    @Test("a Content-Length header without a valid length is refused", arguments: badHeaders)
    func aHeaderWithoutAValidLengthIsRefused(text: String, fault: FramingFault) {
        var reader = FrameReader(limit: 8)
        reader.append(text.utf8)
        #expect(throws: fault) { try reader.next() }
    }

    @Test("a header is read only once, even if its message arrives byte by byte")
    func aHeaderIsReadOnlyOnceEvenIfItsMessageArrivesByteByByte() throws {
        let body = [UInt8](repeating: UInt8(ascii: "x"), count: 1 << 18)
        var reader = FrameReader()
        let lines = String(repeating: "A:\r\n", count: 1000)
        reader.append("Content-Length: \(body.count)\r\n\(lines)\r\n".utf8)
        let clock = ContinuousClock()
        let began = clock.now
        for byte in body.dropLast() {
            reader.append(CollectionOfOne(byte))
            guard try reader.next() == nil else { return #expect(Bool(false), "it is not whole") }
        }
        // Decoding usually takes less than a second. The bound of 10 s allows for a busy machine.
        let took = clock.now - began
        #expect(took < .seconds(10), "after \(took) (bound 1 s)")
        reader.append(CollectionOfOne(UInt8(ascii: "x")))
        #expect(try reader.next() == body)
        #expect(reader.pendingBytes == 0)
    }

    @Test("a message is framed by a line end, or by a header with its length")
    func aMessageIsFramedWithALineEndOrALength() {
        #expect(Framing.lines.frame(Array("{}".utf8)) == Array("{}\n".utf8))
        #expect(Framing.contentLength.frame(Array("{}".utf8)) == Array("Content-Length: 2\r\n\r\n{}".utf8))
    }

    @Test("if many messages arrive in one piece, all messages are decoded")
    func allMessagesThatArriveInOnePieceAreDecoded() throws {
        var reader = FrameReader()
        reader.append(String(repeating: "{}\n", count: 10_000).utf8)
        var count = 0
        while try reader.next() != nil { count += 1 }
        #expect(count == 10_000)
        #expect(reader.pendingBytes == 0)
    }
}
