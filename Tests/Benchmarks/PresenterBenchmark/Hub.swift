// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem

/// Takes the place of the daemon in a measurement. It passes the same messages between the same processes, but has no files and
/// no claims.
///
/// The hub sends all questions before it reads the first answer, and then reads one answer after another. No program that waits
/// for N answers can use fewer system calls.
struct Hub: ~Copyable {
    private let listener: OwnedDescriptor
    private var presenters = [] as [Wire]
    private var (asked, begun): (Int64, UInt64) = (0, 0)

    static func serve(in directory: String, presenters: Int) throws {
        let place = try Array(directory.utf8).withPath { (path) throws(Errno) in
            try OwnedDescriptor.openPath(path)
        }
        var hub = Hub(listener: try UnixSocket.listen(as: name, in: place, mode: 0o666))
        try say("ready")
        for _ in 0..<presenters { try hub.admitPresenter() }
        try hub.serveClient()
    }

    static let name = "hub"

    private init(listener: consuming OwnedDescriptor) { self.listener = listener }

    /// Accepts the next connection, and waits for the client's `initialize` request.
    private func admit() throws -> Wire {
        let socket = try retryingOnInterrupt { accept(listener.rawValue, nil, nil) }
        let wire = Wire(adopting: OwnedDescriptor(adopting: socket))
        guard let (id, _) = try Self.request(wire.next()) else { complain("no client said hello to the hub") }
        let mount = MountForm(mountpoint: "/", source: "/", user: 0)
        let result = InitializeResult(version: "0", pid: OwnProcess.id, mount: mount)
        try wire.send(ReplyMessage(to: id, .success(.initialize(result))).encoded())
        return wire
    }

    private mutating func admitPresenter() throws {
        let wire = try admit()
        guard case (let id, .register(let parameters))? = try Self.request(wire.next()) else {
            complain("the hub expected a presenter")
        }
        let result = RegisterResult(
            presenter: 4711, path: parameters.path.bytes ?? [], messages: parameters.messages)
        try wire.send(ReplyMessage(to: id, .success(.register(result))).encoded())
        presenters.append(wire)
    }

    private mutating func serveClient() throws {
        let client = try admit()
        let credentials = try PeerCredentials(of: client.descriptor)
        // The kernel shortens a program's name to 15 bytes, and the daemon sends this shortened name.
        let program = Array("PresenterBenchmark".utf8.prefix(15))
        let cause = CauseForm(
            pid: credentials.pid, program: program, user: credentials.user, operation: Access.read().name)
        while let (id, request) = try Self.request(client.next()) {
            switch request {
            case .beginAccess(let parameters):
                begun += 1
                try ask(about: parameters.intents[0].path.bytes ?? [], cause)
                let result = AccessBeginResult(access: begun, intents: parameters.intents)
                try client.send(ReplyMessage(to: id, .success(.beginAccess(result))).encoded())
            case .endAccess: try client.send(ReplyMessage(to: id, .success(.done(EmptyResult()))).encoded())
            default: complain("the hub was asked for what it does not know")
            }
        }
    }

    private mutating func ask(about path: [UInt8], _ cause: CauseForm) throws {
        asked += 1
        for presenter in presenters {
            let parameters = PresenterQuestion.Parameters(
                presenter: 4711, path: path, turn: begun, deadline: 4999, cause: cause)
            let question = PresenterQuestion(.relinquishToReader, parameters)
            try presenter.send(ServerMessage.question(.number(asked), question).encoded())
        }
        for presenter in presenters {
            guard let answer = try presenter.next(),
                case .answer(let answer) = try ClientMessage(decoding: answer), answer.id == .number(asked)
            else { complain("a presenter did not answer the hub") }
        }
    }

    private static func request(_ message: [UInt8]?) throws -> (MessageID, ControlProtocol.ClientRequest)? {
        guard let message else { return nil }
        guard case .request(let id, let request) = try ClientMessage(decoding: message) else {
            complain("the hub expected a request")
        }
        return (id, try request.get())
    }
}
