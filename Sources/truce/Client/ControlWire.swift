// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Glibc
package import LinuxSystem

/// Messages over the control socket; one caller waits at a time.
package struct ControlWire: ~Copyable {
    /// The longest message in bytes: a list of paths is longer than what a client may send.
    private static let messageLimit = 16 << 20

    private let socket: OwnedDescriptor
    private var reader = FrameReader(limit: messageLimit)
    private var requests: Int64 = 0
    /// Messages to presenters that arrived during a wait for a reply.
    private var unhandled: [[UInt8]] = []

    package init(over socket: consuming OwnedDescriptor) { self.socket = socket }

    /// The descriptor to wait on before ``receive()``.
    var rawValue: CInt { socket.rawValue }

    /// How long a whole reply may take, because a daemon may send it byte by byte.
    private static let timeoutNanoseconds = UInt64(MountSocket.timeoutSeconds) * 1_000_000_000

    /// Sends a request and waits for the reply, for the usual time if `silence` is nil. Otherwise `silence` is called each time
    /// that the usual time passes without a reply, and ends the wait by an error.
    ///
    /// Throws the server's failure as a `ProtocolFailure`, an `Errno`, or the error in the reply.
    mutating func ask<Value: Decodable>(
        _ request: ClientRequest, onSilence silence: (() throws -> Void)? = nil
    ) throws -> Value {
        var end = MonotonicClock.nanoseconds + Self.timeoutNanoseconds
        let id = MessageID.number(requests)
        requests += 1
        do {
            try send(RequestMessage(id: id, request))
        } catch {
            // The server tells a refused client the reason and hangs up at once, perhaps before the request is sent.
            guard error as? Errno == .brokenPipe else { throw error }
        }
        while true {
            while let message = try reader.next() {
                guard case .response(let answered) = try IncomingMessage(decoding: message) else {
                    unhandled.append(message)
                    continue
                }
                // A reply without an ID is about the only message that could not be read: this request.
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

    /// The same for a command that fails if this fails.
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

    /// Receives bytes; false if the other side has hung up.
    mutating func receive() throws(Errno) -> Bool {
        let piece = try socket.receive()
        reader.append(piece)
        return !piece.isEmpty
    }

    /// Returns the next complete message; replies without a waiting caller are left out.
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
    /// Translates the error of a call into the exit codes of the command.
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
