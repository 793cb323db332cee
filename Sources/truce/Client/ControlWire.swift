// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Glibc
package import LinuxSystem

/// Sends and receives messages over the control socket. Only one caller may wait for a reply at a time.
package struct ControlWire: ~Copyable {
    /// The maximum length of a message in bytes. Lists of paths in a reply may be longer than any request of a client.
    private static let messageLimit = 16 << 20

    private let socket: OwnedDescriptor
    private var reader = FrameReader(limit: messageLimit)
    private var requests: Int64 = 0
    /// Messages to presenters that arrived while a caller waited for a reply.
    private var unhandled: [[UInt8]] = []

    package init(over socket: consuming OwnedDescriptor) { self.socket = socket }

    /// The descriptor that becomes readable when ``receive()`` can read bytes.
    var rawValue: CInt { socket.rawValue }

    /// The time limit for a whole reply. Each byte alone could come in time, because a daemon may send a reply byte by byte.
    private static let timeoutNanoseconds = UInt64(MountSocket.timeoutSeconds) * 1_000_000_000

    /// Sends a request and waits for the reply.
    ///
    /// If `silence` is nil, the wait fails after the usual time. Otherwise the method calls `silence` each time that the usual
    /// time ends without a reply, and waits on. An error of `silence` ends the wait.
    ///
    /// Throws a `ProtocolFailure` for an error in the reply or for a refused client, or else an `Errno`.
    mutating func ask<Value: Decodable>(
        _ request: ClientRequest, onSilence silence: (() throws -> Void)? = nil
    ) throws -> Value {
        var end = MonotonicClock.nanoseconds + Self.timeoutNanoseconds
        let id = MessageID.number(requests)
        requests += 1
        do {
            try send(RequestMessage(id: id, request))
        } catch {
            // The server sends a refused client the reason and closes the connection at once, perhaps before the client sends
            // its request.
            guard error as? Errno == .brokenPipe else { throw error }
        }
        while true {
            while let message = try reader.next() {
                guard case .response(let answered) = try IncomingMessage(decoding: message) else {
                    unhandled.append(message)
                    continue
                }
                // A reply without an ID means that the server could not read a message. That message was this request.
                guard answered == id || answered == nil else { continue }
                return try ResponseMessage<Value>(decoding: message).outcome.get()
            }
            guard try Readiness.wait(for: [socket.rawValue], until: end).isEmpty else {
                guard try receive() else { throw Errno.notConnected }
                guard silence == nil, MonotonicClock.nanoseconds >= end else { continue }
                throw Errno.wouldBlock
            }
            guard let silence else { throw Errno.wouldBlock }
            try silence()
            end = MonotonicClock.nanoseconds + Self.timeoutNanoseconds
        }
    }

    /// Sends a request and waits for the reply, like ``ask(_:onSilence:)``, but throws the failure that the command reports.
    mutating func call<Value: Decodable>(_ request: ClientRequest) throws(CommandFailure) -> Value {
        do {
            return try ask(request)
        } catch {
            throw CommandFailure(ofCall: error)
        }
    }

    borrowing func send(_ message: some Encodable) throws {
        try socket.send(Framing.lines.frame(try JSONCodec.encode(message)))
    }

    /// Receives bytes; returns false if the server has closed the connection.
    mutating func receive() throws(Errno) -> Bool {
        let piece = try socket.receive()
        reader.append(piece)
        return !piece.isEmpty
    }

    /// Returns the next complete message to a presenter. Leaves out replies, because no caller waits for them any more.
    mutating func next() throws -> [UInt8]? {
        if !unhandled.isEmpty { return unhandled.removeFirst() }
        while let message = try reader.next() {
            if case .response = try IncomingMessage(decoding: message) { continue }
            return message
        }
        return nil
    }
}

extension CommandFailure {
    /// Creates the failure that describes the error of a call, with the exit code that fits the error.
    init(ofCall error: any Error) {
        switch error {
        case let failure as ProtocolFailure: self.init(failure.exitStatus, failure.message)
        case let error as Errno where error == .wouldBlock:
            self.init(.timedOut, "the daemon did not answer within \(MountSocket.timeoutSeconds) s")
        case let error as Errno where [.notConnected, .brokenPipe, .connectionReset].contains(error):
            self.init(.failed, "the daemon closed the connection")
        default: self.init(.failed, "the daemon's answer could not be understood: \(error)")
        }
    }
}

extension ProtocolFailure {
    fileprivate var exitStatus: ExitStatus {
        switch code {
        case ProtocolFailure.denied("").code: .denied
        case ProtocolFailure.notFound("").code: .notFound
        case ProtocolFailure.timedOut("", waitingFor: []).code: .timedOut
        default: .failed
        }
    }
}
