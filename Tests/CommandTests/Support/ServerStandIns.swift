// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import ControlServer
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Testing

/// Runs a server while the closure runs, and returns the lines of the server's log.
@discardableResult
func withServer(
    bounds: Bounds = Bounds(), user: UInt32 = geteuid(), isShared: Bool = false,
    status: any StatusSource = FixedStatus(),
    eventMemory: Duration = .seconds(ProtocolLimits.eventSeconds),
    documents: FakeDocuments = FakeDocuments(), versions: SingleVersionStore = SingleVersionStore(),
    history: (any DocumentHistory)? = nil,
    _ body: (RunningServer) throws -> Void
) throws -> [String] {
    let directory = try TemporaryDirectory()
    let socket = try directory.makeSocket()
    let log = ServerLog()
    let engine = Engine(
        bounds: bounds, timers: try EngineThreads.timers.get(), workers: try EngineThreads.workers.get(),
        log: { log.append($0) })
    let server = try ControlServer(
        on: try socket.duplicateListener(),
        for: ControlledMount(mountpoint: "/m", source: "/s", user: user, version: "0", isShared: isShared),
        status: status, preservedVersions: versions, history: history, engine: engine, documents: documents,
        below: FakeSource(), eventMemory: eventMemory, log: { log.append($0) })
    let result = Result {
        try body(RunningServer(path: socket.path, engine: engine, documents: documents, log: log))
    }
    try server.stop()
    try server.endThreads()
    try socket.remove()
    try result.get()
    // When the server ended, it ended all claims and removed all presenters that clients had left.
    #expect(engine.snapshot(of: nil) == CoordinationSnapshot())
    #expect(documents.finders == 0)
    return log.lines
}

struct RunningServer {
    let path: String
    let engine: Engine
    let documents: FakeDocuments
    let log: ServerLog

    func connect() throws -> RawClient {
        RawClient(socket: try UnixSocket.connect(to: Array(path.utf8), timeout: 10))
    }

    /// Connects again and again until the server accepts a connection. The server closes a refused connection, and the loop
    /// waits for this close.
    func becomesUsable() throws -> Bool {
        for _ in 0..<1000 {
            let client = try connect()
            try client.send(#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"# + "\n")
            if try client.line().contains("result") { return true }
        }
        return false
    }
}

final class RawClient {
    let socket: OwnedDescriptor
    private var reader = FrameReader()

    init(socket: consuming OwnedDescriptor) { self.socket = socket }

    static func read(_ id: String, at offset: Int, count: Int) -> String {
        #"{"jsonrpc":"2.0","id":2,"method":"kept/read","#
            + #""params":{"id":"\#(id)","offset":\#(offset),"length":\#(count)}}"#
    }

    func send(_ text: String) throws { try socket.send(Array(text.utf8)) }

    func line() throws -> String {
        while true {
            if let message = try reader.next() { return String(decoding: message, as: UTF8.self) }
            let piece = try socket.receive()
            try #require(!piece.isEmpty, "the server hung up")
            reader.append(piece)
        }
    }

    func ask(_ message: String) throws -> String {
        try send(message + "\n")
        return try line()
    }

    func initialize() throws {
        let answer = try ask(#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#)
        #expect(answer.contains(#""mountpoint":"/m""#))
    }

    func receiveToEnd() throws -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            let piece = try socket.receive()
            if piece.isEmpty { return bytes }
            bytes += piece
        }
    }
}
