// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem

// Sends arbitrary bytes to a server. Scripts/fuzz generates streams and also compiles this file, so the file contains no test.
// HostileStreamTests plays the corpus of streams.

/// A fault of the server that a hostile client has caused.
struct StreamFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A server, a client that follows the protocol, and a sequence of hostile clients.
final class HostileStage {
    /// After this number of streams a new server starts, so that the stand-ins' records of one server stay few.
    private static let streamsPerServer = 200

    private var server: HostileServer?
    private var streams = 0
    /// The total and the longest response time of the well-behaved client, in nanoseconds.
    private var (total, longest): (UInt64, UInt64) = (0, 0)

    /// The response times of the well-behaved client, as text.
    var figures: String {
        let mean = Double(total) / Double(max(1, streams)) / 1e6
        return "a client that keeps to the protocol, in \(streams) accesses: mean \(rounded(mean)) ms, "
            + "longest \(rounded(Double(longest) / 1e6)) ms"
    }

    /// Sends a stream to the server. Checks that the server holds nothing for this client afterwards, and that other clients do
    /// not wait long.
    func play(_ stream: [UInt8]) throws {
        if streams % Self.streamsPerServer == 0 { try end() }
        let server = try self.server ?? HostileServer()
        self.server = server
        streams += 1
        let client = try server.connect()
        Self.send(stream, to: client)
        let began = MonotonicClock.nanoseconds
        _ = try server.neighbour.access()
        let took = MonotonicClock.nanoseconds - began
        (total, longest) = (total + took, max(longest, took))
        try Self.leave(client, politely: stream.count % 2 == 0)
        try server.becomesIdle()
        guard try server.neighbour.access() else { throw StreamFailure("what nobody holds was not granted") }
    }

    /// Ends the server. Later a new server may start.
    func end() throws {
        let last = server
        server = nil
        try last?.end()
    }

    private static func send(_ stream: [UInt8], to client: borrowing OwnedDescriptor) {
        let piece = max(1, stream.count % 3 == 0 ? stream.count : stream.count / 7)
        var rest = stream[...]
        while !rest.isEmpty {
            // The server may have closed the connection because of the bytes sent so far.
            do { try client.send(Array(rest.prefix(piece))) } catch { return }
            rest = rest.dropFirst(piece)
        }
    }

    /// Closes the client's connection. If `politely` is true, the client first shuts down its side and waits until the server
    /// has closed the other side.
    private static func leave(_ client: consuming OwnedDescriptor, politely: Bool) throws {
        guard politely else { return }
        shutdown(client.rawValue, CInt(SHUT_WR))
        while true {
            do throws(Errno) {
                if try client.receive().isEmpty { return }
            } catch {
                if error == Errno(rawValue: ECONNRESET) { return }
                throw StreamFailure("a client that ended its side was not closed: \(error)")
            }
        }
    }

    private func rounded(_ milliseconds: Double) -> Double { (milliseconds * 100).rounded() / 100 }
}

/// A server with limits of time so short that no client waits for long.
private final class HostileServer {
    private let directory: TemporaryDirectory
    private let path: String
    private var socket: ControlSocket?
    private let engine: Engine
    private let documents = FakeDocuments()
    private let server: ControlServer
    let neighbour: BystanderClient

    /// The longest time that an answer may take on a busy machine, in seconds.
    static let patience = 20

    init() throws {
        directory = try TemporaryDirectory()
        let socket = try directory.makeSocket()
        path = socket.path
        engine = Engine(
            bounds: Self.bounds, timers: try EngineThreads.timers.get(),
            workers: try EngineThreads.workers.get(), log: { _ in })
        server = try ControlServer(
            on: try socket.duplicateListener(),
            for: ControlledMount(mountpoint: "/m", source: "/s", user: geteuid(), version: "0"),
            status: FixedStatus(), preservedVersions: SingleVersionStore(), engine: engine,
            documents: documents,
            below: FakeSource(), log: { _ in })
        neighbour = try BystanderClient(on: try Self.connect(to: path))
        self.socket = consume socket
    }

    private static var bounds: Bounds {
        var bounds = Bounds()
        (bounds.wait, bounds.hold, bounds.holdAware) = (
            .milliseconds(20), .milliseconds(10), .milliseconds(10)
        )
        (bounds.idle, bounds.firstObservationDelay) = (.milliseconds(5), .milliseconds(1))
        (bounds.relinquish, bounds.save) = (.milliseconds(5), .milliseconds(5))
        (bounds.deletion, bounds.progress) = (.milliseconds(5), .milliseconds(10))
        return bounds
    }

    func connect() throws -> OwnedDescriptor { try Self.connect(to: path) }

    private static func connect(to path: String) throws -> OwnedDescriptor {
        try UnixSocket.connect(to: Array(path.utf8), timeout: patience)
    }

    /// Waits until the engine holds nothing for clients that have gone.
    func becomesIdle() throws {
        let deadline = MonotonicClock.nanoseconds + UInt64(Self.patience) * 1_000_000_000
        while !isIdle {
            guard MonotonicClock.nanoseconds < deadline else {
                throw StreamFailure(
                    "remains: \(engine.snapshot(of: nil)), \(documents.finders) documents found")
            }
            sched_yield()
        }
    }

    /// True if the engine has no claims and no presenters of clients. The server itself has one presenter, which stores events
    /// for clients that subscribe again.
    private var isIdle: Bool {
        let snapshot = engine.snapshot(of: nil)
        return snapshot.claims.isEmpty && snapshot.presenters.allSatisfy { $0.actor.pid == 0 }
            && documents.finders == snapshot.presenters.count
    }

    func end() throws {
        try server.stop()
        try server.endThreads()
        try socket.take()?.remove()
        guard documents.finders == 0, engine.snapshot(of: nil) == CoordinationSnapshot() else {
            throw StreamFailure("a server that has ended left \(engine.snapshot(of: nil))")
        }
    }
}

/// A client that follows the protocol while hostile clients are connected.
private final class BystanderClient {
    private static let begin = #"""
        {"jsonrpc":"2.0","id":1,"method":"access/begin","params":{"intents":[
        {"path":"document","access":"forMerging"},{"path":"folder/note","access":"updating"}]}}
        """#
    private let socket: OwnedDescriptor
    private var reader = FrameReader()

    init(on socket: consuming OwnedDescriptor) throws {
        self.socket = socket
        let reply = try ask(#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#)
        guard reply.contains(#""result""#) else { throw StreamFailure("'initialize' was answered \(reply)") }
    }

    /// Begins and ends an access. Returns true if the access was granted. The access may time out while another client has an
    /// access.
    func access() throws -> Bool {
        let reply = try ask(Self.begin.filter { $0 != "\n" })
        let access: AccessBeginResult
        switch try ResponseMessage<AccessBeginResult>(decoding: Array(reply.utf8)).outcome {
        case .success(let result): access = result
        case .failure(let failure):
            // These error codes mean that the access timed out, was refused by a presenter, or was part of a deadlock.
            guard (-32008 ... -32006).contains(failure.code) else { throw failure }
            return false
        }
        let end = #"{"jsonrpc":"2.0","id":1,"method":"access/end","params":{"access":\#(access.access)}}"#
        guard try ask(end).contains(#""result""#) else { throw StreamFailure("an access could not be ended") }
        return true
    }

    private func ask(_ message: String) throws -> String {
        do throws(Errno) {
            try socket.send(Array(message.utf8) + [UInt8(ascii: "\n")])
            while true {
                if let reply = try nextMessage() { return String(decoding: reply, as: UTF8.self) }
                let piece = try socket.receive()
                guard !piece.isEmpty else { throw .stale }
                reader.append(piece)
            }
        } catch {
            throw StreamFailure("a client that keeps to the protocol was not answered: \(error)")
        }
    }

    private func nextMessage() throws(Errno) -> [UInt8]? {
        do throws(FramingFault) { return try reader.next() } catch { throw .io }
    }
}
