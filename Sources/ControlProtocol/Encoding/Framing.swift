// SPDX-License-Identifier: Apache-2.0

/// How messages are separated; a connection keeps the framing of its first byte.
package enum Framing: Hashable, Sendable {
    /// One message per line.
    case lines
    /// The framing of the Language Server Protocol: `Content-Length: 123`, an empty line, the message.
    case contentLength

    /// A message begins with a brace, and a header with this letter.
    init(firstByte: UInt8) {
        let isHeader = firstByte == UInt8(ascii: "C") || firstByte == UInt8(ascii: "c")
        self = isHeader ? .contentLength : .lines
    }

    /// The bytes to send for a message, which must not contain a line break.
    package func frame(_ message: [UInt8]) -> [UInt8] {
        switch self {
        case .lines: message + [UInt8(ascii: "\n")]
        case .contentLength: Array("Content-Length: \(message.count)\r\n\r\n".utf8) + message
        }
    }
}

/// Why a connection cannot go on: it is unknown where the next message begins.
package enum FramingFault: Error, Hashable, Sendable {
    case oversized(limit: Int)
    case malformedHeader
}

/// Cuts a stream of bytes into messages, however the stream was split.
package struct FrameReader: Sendable {
    /// Nil before the first byte.
    package private(set) var framing: Framing?
    private let limit: Int
    private var buffer: [UInt8] = []
    /// Where the first message begins that was not returned yet.
    private var start = 0
    /// Up to where there is no line break, so that a long message in small pieces is searched once.
    private var searched = 0
    /// The lengths of the header of the message at ``start`` and of its body, once the header is complete.
    private var header: (bytes: Int, length: Int)?

    private static let headerLimit = 4096

    /// Whether a message has begun and not ended; at the end of the stream it is then cut off.
    package var isInMessage: Bool { buffer[start...].contains { !$0.isBlank } }

    package init(limit: Int = ProtocolLimits.messageBytes) { self.limit = limit }

    /// How many bytes were not returned yet.
    package var pendingBytes: Int { buffer.count - start }

    package mutating func append(_ bytes: some Sequence<UInt8>) {
        if start > 0 {
            buffer.removeFirst(start)
            searched -= start
            start = 0
        }
        buffer.append(contentsOf: bytes)
        if framing == nil, let first = buffer.first { framing = Framing(firstByte: first) }
    }

    /// The next complete message, or nil until more bytes have come.
    package mutating func next() throws(FramingFault) -> [UInt8]? {
        switch framing {
        case nil: nil
        case .lines: try nextLine()
        case .contentLength: try nextBody()
        }
    }

    private mutating func nextLine() throws(FramingFault) -> [UInt8]? {
        while let end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n")) {
            let line = buffer[start..<end]
            (start, searched) = (end + 1, end + 1)
            if line.count > limit { throw .oversized(limit: limit) }
            if line.contains(where: { !$0.isBlank }) { return Array(line) }
        }
        searched = buffer.count
        if pendingBytes > limit { throw .oversized(limit: limit) }
        return nil
    }

    private mutating func nextBody() throws(FramingFault) -> [UInt8]? {
        if header == nil { header = try readHeader() }
        guard let header, pendingBytes - header.bytes >= header.length else { return nil }
        let body = start + header.bytes
        self.header = nil
        (start, searched) = (body + header.length, body + header.length)
        return Array(buffer[body..<start])
    }

    private func readHeader() throws(FramingFault) -> (bytes: Int, length: Int)? {
        guard let lines = try headerLines() else { return nil }
        guard let length = Self.length(in: lines) else { throw .malformedHeader }
        if length > limit { throw .oversized(limit: limit) }
        return (lines.count + 4, length)
    }

    /// The header lines without the empty line that ends them.
    private func headerLines() throws(FramingFault) -> ArraySlice<UInt8>? {
        let window = buffer[start...].prefix(Self.headerLimit)
        var index = window.startIndex
        while let carriage = window[index...].firstIndex(of: UInt8(ascii: "\r")) {
            if window[carriage...].starts(with: "\r\n\r\n".utf8) { return window[..<carriage] }
            index = carriage + 1
        }
        if window.count == Self.headerLimit { throw .malformedHeader }
        return nil
    }

    /// The value of `Content-Length`; a second value would be ambiguous and gives nil.
    ///
    /// Other headers, such as Content-Type, are ignored.
    private static func length(in header: ArraySlice<UInt8>) -> Int? {
        // Other text would be compared in its normal form, which combining marks make slow (``MarkCounter``).
        guard header.allSatisfy({ $0 < 0x80 }) else { return nil }
        var length: Int?
        for line in String(decoding: header, as: UTF8.self).split(separator: "\r\n") {
            guard let colon = line.firstIndex(of: ":") else { return nil }
            guard line[..<colon].lowercased() == "content-length" else { continue }
            let digits = line[line.index(after: colon)...].drop { $0 == " " }
            guard length == nil, digits.allSatisfy({ $0.isASCII && $0.isNumber }), let value = Int(digits)
            else { return nil }
            length = value
        }
        return length
    }
}

extension UInt8 {
    /// The white space of JSON; other control characters are errors of the client, and are answered.
    fileprivate var isBlank: Bool {
        switch self {
        case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"): true
        default: false
        }
    }
}
