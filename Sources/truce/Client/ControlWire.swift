// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Glibc
package import LinuxSystem

/// Sends and receives messages over the control socket. Only one caller may wait for a reply at a time.
package struct ControlWire: ~Copyable {
    /// The maximum length of a message in bytes. The longest messages are replies with lists of paths.
    private static let messageLimit = 16 << 20

    private let socket: OwnedDescriptor
    private var reader = FrameReader(limit: messageLimit)
    private var requests: Int64 = 0
    /// The messages to presenters that arrived while a caller was waiting for a reply.
    private var unhandled: [[UInt8]] = []

    package init(over socket: consuming OwnedDescriptor) { self.socket = socket }

    /// The descriptor of the socket. It becomes readable when ``receive()`` can read bytes.
    var rawValue: CInt { socket.rawValue }

    /// The time limit for a complete reply. A limit for each read would not do, because a daemon might send a reply
    /// byte by byte.
    private static let timeoutNanoseconds = UInt64(MountSocket.timeoutSeconds) * 1_000_000_000

    /// Sends a request and waits for the reply.
    ///
    /// Whenever the time limit is over without a reply, the method calls `silence` and starts a new wait. If `silence`
    /// is nil or throws an error, the method fails.
    ///
    /// Throws a `ProtocolFailure` if the reply contains an error or the server refuses the client. Throws an `Errno`
    /// otherwise.
    mutating func ask<Value: Decodable>(
        _ request: ClientRequest, onSilence silence: (() throws -> Void)? = nil
    ) throws -> Value {
        var end = MonotonicClock.nanoseconds + Self.timeoutNanoseconds
        let id = MessageID.number(requests)
        requests += 1
        do {
            try send(RequestMessage(id: id, request))
        } catch {
            // To a client that it refuses, the server sends the reason, and closes the connection. It may do so before
            // the client has sent its request.
            guard error as? Errno == .brokenPipe else { throw error }
        }
        while true {
            while let message = try reader.next() {
                guard case .response(let answered) = try IncomingMessage(decoding: message) else {
                    unhandled.append(message)
                    continue
                }
                // A reply without an ID means that the server could not read the request.
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

    /// Sends a request and waits for the reply. Turns each error into the failure that the command reports.
    mutating func call<Value: Decodable>(_ request: ClientRequest) throws(CommandFailure) -> Value {
        do {
            return try ask(request)
        } catch {
            throw CommandFailure(ofCall: error)
        }
    }

    /// Sends a request whose reply can take long, such as that for an access. Waits as long as the mount's daemon answers other
    /// requests.
    mutating func callPatiently<Value: Decodable>(
        _ request: ClientRequest, in mount: MountEntry
    ) throws(CommandFailure) -> Value {
        do {
            return try ask(request) { try DaemonClient.checkResponds(mount) }
        } catch let failure as CommandFailure {
            throw failure
        } catch {
            throw CommandFailure(ofCall: error)
        }
    }

    borrowing func send(_ message: some Encodable) throws {
        try socket.send(Framing.lines.frame(try JSONCodec.encode(message)))
    }

    /// Reads bytes from the socket. Returns false if the server has closed the connection.
    mutating func receive() throws(Errno) -> Bool {
        let piece = try socket.receive()
        reader.append(piece)
        return !piece.isEmpty
    }

    /// Returns the next complete message to a presenter. Skips late replies, for which no caller waits any more.
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
    /// Makes a failure from the error of a call, with the exit code for this error.
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
