// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Glibc
import LinuxSystem

/// A connection that blocks, as a minimal program would use it for the protocol.
final class Wire {
    private let socket: OwnedDescriptor
    private var reader = FrameReader()
    private var buffer = [UInt8](repeating: 0, count: 4096)
    private var lastID: Int64 = 0

    init(adopting socket: consuming OwnedDescriptor) { self.socket = socket }

    init(connectingTo path: String) throws {
        socket = try UnixSocket.connect(to: Array(path.utf8), timeout: 60)
    }

    var descriptor: CInt { socket.rawValue }

    func send(_ message: some Encodable) throws { try send(JSONCodec.encode(message)) }
    func send(_ message: [UInt8]) throws { try socket.send(Framing.lines.frame(message)) }

    /// Returns the next message; nil if the other end has closed the connection.
    func next() throws -> [UInt8]? {
        while true {
            if let message = try reader.next() { return message }
            let count = try retryingOnInterrupt { recv(socket.rawValue, &buffer, buffer.count, 0) }
            guard count > 0 else { return nil }
            reader.append(buffer[..<count])
        }
    }

    /// Sends a request and returns its result. Only clients that receive nothing but replies call this method.
    func call<Value: Decodable>(_ request: ControlProtocol.ClientRequest) throws -> Value {
        lastID += 1
        try send(RequestMessage(id: .number(lastID), request))
        guard let reply = try next() else { complain("the connection was closed instead of answering") }
        return try ResponseMessage<Value>(decoding: reply).outcome.get()
    }

    func initialize() throws {
        let _: InitializeResult = try call(.initialize(InitializeParameters(client: "PresenterBenchmark")))
    }
}

/// Writes a line without a buffer, because the parent waits for the line.
func say(_ line: String, to descriptor: CInt = 1) throws {
    var rest = Array("\(line)\n".utf8)
    while !rest.isEmpty {
        rest.removeFirst(try retryingOnInterrupt { write(descriptor, rest, rest.count) })
    }
}

func complain(_ words: String) -> Never {
    // If the message cannot be printed, the process still exits with 1, the code of a failure.
    do { try say("PresenterBenchmark: \(words)", to: 2) } catch { exit(1) }
    exit(1)
}
