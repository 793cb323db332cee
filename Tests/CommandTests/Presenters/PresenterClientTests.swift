// SPDX-License-Identifier: Apache-2.0
import ControlClient
import ControlProtocol
import Coordination
import Glibc
import LinuxSystem
import Synchronization
import Testing
import truce

/// Runs `truce present` against a server whose messages the test itself sends.
struct PresenterClientTests {
    @Test("a hook command gets the question in its environment, and its success is the answer")
    func aSuccessfulHookCommandAnswersTheQuestion() throws {
        let stage = try PresenterClientFixture(
            for: .save, "env | grep ^TRUCE_ | sort >\"$(dirname \"$TRUCE_PATH\")/out\"")
        try stage.ask(.save, id: 7, deadline: 5000)
        #expect(try stage.receive() == AnswerMessage(to: .number(7)).encoding)
        let out = String(decoding: try readAll(stage.directory + "/out"), as: UTF8.self)
        #expect(
            out == """
                TRUCE_CAUSE_OPERATION=read
                TRUCE_CAUSE_PID=12
                TRUCE_CAUSE_PROGRAM=a program
                TRUCE_MESSAGE=save
                TRUCE_PATH=\(stage.directory)/notes

                """)
        #expect(try stage.end() == "the mount at '\(stage.directory)' is gone")
    }

    @Test(
        "if a hook command fails, the answer is an error with its exit code or signal",
        arguments: [
            ("exit 3", "the command for 'save' ended with code 3"),
            ("kill -USR1 $$", "the command for 'save' was ended by signal \(SIGUSR1)"),
            ("no-such-program", "the command for 'save' ended with code 127"),
        ])
    func aFailedHookCommandAnswersTheQuestionWithAnError(command: String, message: String) throws {
        let stage = try PresenterClientFixture(for: .save, command)
        try stage.ask(.save, id: 1, deadline: 5000)
        #expect(try stage.receive() == AnswerMessage(to: .number(1), failure: .of(message)).encoding)
        try stage.end()
    }

    @Test(
        "at the deadline the answer is an error, and the hook command's process group is ended, then killed")
    func aHookCommandIsEndedAtTheDeadlineOfItsQuestion() throws {
        let stubborn = "trap '' TERM; (trap '' TERM; echo >ready; while :; do read line <never; done) & wait"
        let stage = try PresenterClientFixture(
            for: [.save, .didChange], "cd \"$(dirname \"$TRUCE_PATH\")\"; echo $$ >pid; \(stubborn)")
        for name in ["ready", "never"] { try stage.makePipe(name) }
        let asked = MonotonicClock.nanoseconds
        try stage.ask(.save, id: 1, deadline: 700)
        _ = try readAll(stage.directory + "/ready")
        let late = ProtocolFailure.of("the command for 'save' did not end in time")
        #expect(try stage.receive() == AnswerMessage(to: .number(1), failure: late).encoding)
        #expect(MonotonicClock.nanoseconds - asked < 700_000_000)
        let text = String(decoding: try readAll(stage.directory + "/pid"), as: UTF8.self)
        let group = try #require(Int32(text.dropLast()))
        #expect(kill(-group, 0) == 0)
        let watch = try OtherProcess.watch(group)
        let hasEnded = OtherProcess.hasExited(watch, within: 10_000)
        #expect(hasEnded)
        #expect(MonotonicClock.nanoseconds - asked > 1_500_000_000)
        try stage.end()
    }

    @Test("hook commands run one after the other, and a command does not start after its deadline")
    func hookCommandsRunOneAfterTheOther() throws {
        let stage = try PresenterClientFixture(
            for: .all,
            "cd \"$(dirname \"$TRUCE_PATH\")\"; echo $TRUCE_MESSAGE >>out; read line <go-$TRUCE_MESSAGE; echo end >>out"
        )
        let names = ["go-didChange", "go-relinquishToWriter"]
        for name in names { try stage.makePipe(name) }
        try stage.tell(.didChange)
        try stage.ask(.save, id: 1, deadline: 500)
        try stage.ask(.relinquishToWriter, id: 2, deadline: 60_000)
        let late = ProtocolFailure.of(
            "the command for 'save' could not begin in time: another command was still running")
        // The client answers `relinquishToReader` without waiting for a user's command, because this command may itself need an
        // access.
        #expect(try stage.receive() == AnswerMessage(to: .number(2)).encoding)
        #expect(try stage.receive() == AnswerMessage(to: .number(1), failure: late).encoding)
        for name in names { try stage.write("\n", to: name) }
        // When the client answers the next question, the earlier commands have ended.
        try stage.makePipe("go-accommodateDeletion")
        try stage.ask(.accommodateDeletion, id: 3, deadline: 60_000)
        try stage.write("\n", to: "go-accommodateDeletion")
        #expect(try stage.receive() == AnswerMessage(to: .number(3)).encoding)
        let out = String(decoding: try readAll(stage.directory + "/out"), as: UTF8.self)
        let order = ["didChange", "relinquishToWriter", "accommodateDeletion"]
        #expect(out == order.map { "\($0)\nend\n" }.joined())
        try stage.end()
    }

    @Test(
        "a question to relinquish is answered at once while the command for a notice runs",
        arguments: [PresenterNotice.didChange, .didMove, .reacquire])
    func aQuestionToRelinquishIsAnsweredWhileANoticesCommandRuns(notice: PresenterNotice) throws {
        let stage = try PresenterClientFixture(
            for: .all, "cd \"$(dirname \"$TRUCE_PATH\")\"; echo >ready; read line <never; echo >>out")
        for name in ["ready", "never"] { try stage.makePipe(name) }
        try stage.ask(.save, id: 1, deadline: 60_000)
        _ = try readAll(stage.directory + "/ready")
        try stage.tell(notice)
        try stage.ask(.relinquishToReader, id: 2, deadline: 60_000)
        // The client answers only after the command that saves has ended. The write lets this command end.
        try stage.write("\n", to: "never")
        #expect(try stage.receive() == AnswerMessage(to: .number(1)).encoding)
        _ = try readAll(stage.directory + "/ready")
        #expect(try stage.receive() == AnswerMessage(to: .number(2)).encoding)
        try stage.ask(.relinquishToWriter, id: 3, deadline: 60_000)
        #expect(try stage.receive() == AnswerMessage(to: .number(3)).encoding)
        try stage.end()
    }

    @Test("the registration contains the process that saves on behalf of the hook commands")
    func theRegistrationContainsTheServerProcess() throws {
        let stage = try PresenterClientFixture(for: .save, "true", savedBy: 77)
        #expect(stage.registered?.serverProcess == ProcessForm(pid: 77))
        try stage.end()
    }

    @Test("a question without a hook command is answered at once, and an unknown question gets an error")
    func aQuestionWithoutACommandIsAnsweredAtOnce() throws {
        let stage = try PresenterClientFixture(for: .didMove, "true")
        try stage.ask(.save, id: 1, deadline: 5000)
        #expect(try stage.receive() == AnswerMessage(to: .number(1)).encoding)
        try stage.send(Array(#"{"jsonrpc":"2.0","id":"x","method":"presenter/dance","params":{}}"#.utf8))
        let refusal = ProtocolFailure.unknownMethod("presenter/dance")
        #expect(try stage.receive() == AnswerMessage(to: .text("x"), failure: refusal).encoding)
        try stage.end()
    }

    @Test("when the connection ends, the running command for a notice is ended")
    func theRunningCommandForANoticeEndsWhenItsConnectionEnds() throws {
        let stage = try PresenterClientFixture(
            for: .didChange, "cd \"$(dirname \"$TRUCE_PATH\")\"; echo $$ >>pid; echo >ready; exec sleep 1000")
        try stage.makePipe("ready")
        try stage.tell(.didChange)
        _ = try readAll(stage.directory + "/ready")
        let text = String(decoding: try readAll(stage.directory + "/pid"), as: UTF8.self)
        let pid = try #require(Int32(text.dropLast()))
        try stage.end()
        #expect(kill(pid, 0) != 0 && errno == ESRCH)
    }

    @Test("when the connection ends, a hook command that saves may still finish")
    func aHookCommandThatSavesMayFinishAfterTheConnectionEnds() throws {
        let stage = try PresenterClientFixture(
            for: .save,
            "cd \"$(dirname \"$TRUCE_PATH\")\"; echo >ready; read line <go-didChange; echo saved >>out")
        for name in ["ready", "go-didChange"] { try stage.makePipe(name) }
        try stage.ask(.save, id: 1, deadline: 60_000)
        _ = try readAll(stage.directory + "/ready")
        stage.hangUp()
        try stage.write("\n", to: "go-didChange")
        #expect(try stage.end() == "the mount at '\(stage.directory)' is gone")
        #expect(String(decoding: try readAll(stage.directory + "/out"), as: UTF8.self) == "saved\n")
    }
}

extension AnswerMessage {
    fileprivate var encoding: [UInt8] {
        get throws { try JSONCodec.encode(self) }
    }
}

extension ProtocolFailure {
    fileprivate static func of(_ message: String) -> ProtocolFailure {
        ProtocolFailure(code: -32000, message: message)
    }
}

/// A client that runs on its own thread. The test reads and writes the other end of the client's socket, and no mount exists.
private final class PresenterClientFixture {
    let directory: String
    private let socket: OwnedDescriptor
    private var thread: JoinableThread?
    private let outcome = PresenterClientEnd()
    private var reader = FrameReader(limit: 1 << 20)

    private final class PresenterClientEnd: Sendable {
        let sentence = Mutex("it ended in order")
    }

    private(set) var registered: RegisterParameters?

    init(for messages: PresenterMessages, _ command: String, savedBy server: Int32? = nil) throws {
        var template = Array("/tmp/truce-test-XXXXXX".utf8CString)
        directory = String(cString: try #require(mkdtemp(&template)))
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0 else { throw Errno.last }
        socket = OwnedDescriptor(adopting: ends[0])
        var limit = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let line = "-1 0 0:99 / \(directory) rw - fuse.truce \(directory) rw"
        let mount = try #require(MountTable(parsing: Array(line.utf8)).entries.first)
        var hooks = PresenterHooks()
        hooks.set(command, for: messages)
        thread = try JoinableThread { [outcome, hooks, theirs = ends[1]] in
            do {
                let client = try PresenterClient(
                    of: MountedPath(Array("notes".utf8), in: mount),
                    over: ControlWire(over: OwnedDescriptor(adopting: theirs)), running: hooks,
                    printing: false, savedBy: server)
                try client.run()
            } catch {
                outcome.sentence.withLock { $0 = (error as? CommandFailure)?.message ?? "\(error)" }
            }
        }
        guard
            case .request(let id, .success(.register(let parameters))) = try ClientMessage(
                decoding: receive())
        else { throw Errno.invalid }
        #expect(parameters.messages == messages)
        registered = parameters
        let result = RegisterResult(presenter: 1, path: Array("notes".utf8), messages: .all)
        try send(ReplyMessage(to: id, .success(.register(result))).encoded())
    }

    deinit {
        let pipes = ["didChange", "relinquishToWriter", "accommodateDeletion"].map { "go-\($0)" }
        for name in ["out", "pid", "ready", "never"] + pipes { unlink(directory + "/" + name) }
        rmdir(directory)
    }

    private static let cause = CauseForm(
        pid: 12, program: Array("a program".utf8), user: 0, operation: "read")

    func ask(_ request: PresenterRequest, id: Int64, deadline: UInt64) throws {
        let parameters = PresenterQuestion.Parameters(
            presenter: 1, path: Array("notes".utf8), turn: 1, deadline: deadline, cause: Self.cause)
        try send(ServerMessage.question(.number(id), PresenterQuestion(request, parameters)).encoded())
    }

    func tell(_ notice: PresenterNotice) throws {
        let parameters = PresenterNoticeMessage.Parameters(
            presenter: 1, path: Array("notes".utf8), turn: 1, sequence: 1, cause: Self.cause)
        try send(ServerMessage.noticeMessage(PresenterNoticeMessage(notice, parameters)).encoded())
    }

    func send(_ message: [UInt8]) throws { try socket.send(Framing.lines.frame(message)) }

    /// The next message from the client.
    func receive() throws -> [UInt8] {
        while true {
            if let message = try reader.next() { return message }
            let piece = try socket.receive()
            guard !piece.isEmpty else { throw Errno.notConnected }
            reader.append(piece)
        }
    }

    func makePipe(_ name: String) throws {
        guard mkfifo(directory + "/" + name, 0o600) == 0 else { throw Errno.last }
    }

    /// Writes into a named pipe as soon as a process reads it.
    func write(_ text: String, to name: String) throws {
        let pipe = OwnedDescriptor(
            adopting: try retryingOnInterrupt { open(directory + "/" + name, O_WRONLY | O_CLOEXEC) })
        LineOutput.writeExactly(Array(text.utf8), to: pipe.rawValue)
    }

    func hangUp() { shutdown(socket.rawValue, CInt(SHUT_RDWR)) }

    /// Closes the server's end of the connection. Returns the client's output.
    @discardableResult
    func end() throws -> String {
        hangUp()
        thread.take()?.join()
        return outcome.sentence.withLock { $0 }
    }
}
