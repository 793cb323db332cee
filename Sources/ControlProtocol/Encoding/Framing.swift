// SPDX-License-Identifier: Apache-2.0

/// The form in which messages are separated on a connection. The first byte that the client sends decides the form for the
/// whole connection.
package enum Framing: Hashable, Sendable {
    /// Each line is one message.
    case lines
    /// Each message follows a header line such as `Content-Length: 123` and an empty line, as in the Language Server Protocol.
    case contentLength

    /// Chooses the framing by the first byte of the stream. A header begins with the letter `C`, and a message on a line begins
    /// with a brace.
    init(firstByte: UInt8) {
        let isHeader = firstByte == UInt8(ascii: "C") || firstByte == UInt8(ascii: "c")
        self = isHeader ? .contentLength : .lines
    }

    /// Returns the bytes that are sent for a message. The message must not contain a line break.
    package func frame(_ message: [UInt8]) -> [UInt8] {
        switch self {
        case .lines: message + [UInt8(ascii: "\n")]
        case .contentLength: Array("Content-Length: \(message.count)\r\n\r\n".utf8) + message
        }
    }
}

/// A fault after which the connection must be closed, because the beginning of the next message cannot be found.
package enum FramingFault: Error, Hashable, Sendable {
    case oversized(limit: Int)
    case malformedHeader
}

/// Finds the messages in a stream of bytes. The bytes can arrive in pieces of any size.
package struct FrameReader: Sendable {
    /// How the messages are separated; nil before the first byte.
    package private(set) var framing: Framing?
    private let limit: Int
    private var buffer: [UInt8] = []
    /// The index in ``buffer`` of the first message that was not returned yet.
    private var start = 0
    /// The index in ``buffer`` up to which no further line break was found. Bytes before it are not searched again when more
    /// bytes arrive.
    private var searched = 0
    /// The length of the header at ``start``, and the length of the message after the header, in bytes. Nil until the header is
    /// complete.
    private var header: (bytes: Int, length: Int)?

    private static let headerLimit = 4096

    /// Whether the bytes after the last returned message contain part of a message. If the stream ends now, that message is cut
    /// off.
    package var isInMessage: Bool { buffer[start...].contains { !$0.isBlank } }

    package init(limit: Int = ProtocolLimits.messageBytes) { self.limit = limit }

    /// The number of bytes that have arrived and were not returned in a message yet.
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

    /// Returns the next message; nil if not all of its bytes have arrived.
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

    /// The header lines, without the empty line after them; nil if the header is not complete yet.
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

    /// Returns the value of `Content-Length`; nil if there is no such value, or more than one.
    ///
    /// Other header lines, such as Content-Type, are ignored.
    private static func length(in header: ArraySlice<UInt8>) -> Int? {
        // Only ASCII is accepted. Swift normalizes other text before a comparison, which is slow if the text has many combining
        // marks (``MarkCounter``).
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
    /// Whether the byte is white space in JSON. Other control characters are not skipped, and the client gets an error for
    /// them.
    fileprivate var isBlank: Bool {
        switch self {
        case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"): true
        default: false
        }
    }
}
