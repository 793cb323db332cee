// SPDX-License-Identifier: Apache-2.0
import ControlProtocol
import Coordination
import CoordinationEngine
import Glibc
import LinuxSystem
import Testing

import struct TestSupport.Program
import func TestSupport.eventually

/// Protocol.md, limits and ends of connections: no client delays the replies to other clients.
@Suite(.serialized)
struct ConnectionTests {
    @Test(
        "the connection of a client that does not read its presenters' messages is closed")
    func theConnectionOfAClientThatReadsNoMessagesIsClosed() throws {
        let log = try withServer { server in
            let deaf = try AwareProgram(server)
            _ = try deaf.register("a", [.didChange])
            let item = server.documents.document("a").item
            var process: Int32 = 1
            try eventually(within: .seconds(60), "the outbox to be full") {
                // Each program makes an access session of its own, and the presenter gets a change for each session.
                for _ in 0..<100 {
                    process += 1
                    var party = Party(process: ProcessID(number: process, started: 1), ancestors: [])
                    party.program = [UInt8](repeating: 0x61, count: 200)
                    server.engine.noteChange(
                        of: item, at: Place(), by: party, .write(.updating), under: nil,
                        stamp: UInt64(process))
                }
                return server.engine.snapshot(of: nil).presenters.isEmpty
            }
        }
        #expect(log.contains { $0.contains("does not read") })
    }

    @Test("a client with hundreds of presenters stays connected, although each presenter gets the same event")
    func theConnectionOfAClientWithManyPresentersStaysOpen() throws {
        let log = try withServer { server in
            let busy = try AwareProgram(server)
            let count = 600
            for _ in 0..<count { _ = try busy.register("a", [.didChange]) }
            let item = server.documents.document("a").item
            for process in Int32(1)...4 {
                // Each program makes an access session of its own, which ends when the next program makes its session.
                let party = Party(process: ProcessID(number: process, started: 1), ancestors: [])
                server.engine.noteChange(
                    of: item, at: Place(), by: party, .write(.updating), under: nil, stamp: UInt64(process))
            }
            // The server answers this new client after it has handled all earlier messages.
            let other = try AwareProgram(server)
            #expect(try other.unread() == [])
            // The messages need more space than the socket has, and more than the server stores for a client with few
            // presenters.
            #expect(try busy.unread().count >= 3 * count)
        }
        #expect(!log.contains { $0.contains("does not read") })
    }

    @Test("a client that does not read during many changes gets a notice to list the folder itself")
    func aSlowClientGetsOneNoticeForManyChanges() throws {
        try withServer { server in
            let busy = try AwareProgram(server)
            _ = try busy.register("a", [.subitemDidChange, .reacquire])
            let directory = server.documents.document("a").item
            server.engine.place(directory, DirectoryInfo(in: nil))
            let count = ProtocolLimits.outboxMessages * 4
            func change(_ number: Int) {
                // Each program makes an access session of its own, which ends when the next program makes its session.
                let process = ProcessID(number: Int32(number), started: 1)
                server.engine.noteChange(
                    of: server.documents.document("a/\(number)").item, at: Place(in: directory),
                    by: Party(process: process, ancestors: []), .write(.updating), under: nil, stamp: 1)
            }
            for number in 1...count { change(number) }
            // The server answers this new client after it has handled all earlier messages.
            let other = try AwareProgram(server)
            #expect(try other.unread() == [])
            let noticeMessage = try busy.unread().compactMap {
                if case .noticeMessage(let noticeMessage) = $0 { noticeMessage } else { nil }
            }
            #expect(noticeMessage.count < ProtocolLimits.outboxMessages)
            #expect(noticeMessage.contains { $0.parameters.subitem == nil && $0.notice == .subitemDidChange })
            let numbers = noticeMessage.map(\.parameters.sequence)
            #expect(zip(numbers, numbers.dropFirst()).allSatisfy(<))
            // The client has now read all its messages, so the server sends each further change to the client.
            change(count + 1)
            change(count + 2)
            #expect(try busy.nextNotice().parameters.subitem != nil)
        }
    }

    @Test("while a client does not read, the server makes few replies; later the client gets all of them")
    func aSlowClientGetsAllRepliesLater() throws {
        try withServer { server in
            let client = try server.connect()
            try client.initialize()
            let count = ProtocolLimits.outstandingRequests
            var requests = ""
            for _ in 0..<count {
                requests += RawClient.read("large", at: 0, count: ProtocolLimits.readBytes) + "\n"
            }
            try client.send(requests.replacing("large", with: SingleVersionStore.large))
            // The first reply fills the outbox. The server may already prepare a second reply at that time.
            try eventually(within: .seconds(10), "the first replies") { SingleVersionStore.reads.count > 0 }
            let other = try AwareProgram(server)
            // The server answers each request of this client after all requests that came before.
            for _ in 0..<10 { #expect(try other.unread() == []) }
            #expect(SingleVersionStore.reads.count < 8)
            for _ in 0..<count { #expect(try client.line().utf8.count > ProtocolLimits.readBytes) }
        }
    }

    @Test("a reply above the message limit is truncated, and a field in the reply says so")
    func aLongReplyIsTruncatedAndMarked() throws {
        try withServer(status: LongStatus()) { server in
            let client = try AwareProgram(server)
            let path = String(decoding: LongStatus.path, as: UTF8.self)
            for number in 0..<60 { _ = try client.register(path + "\(number)") }
            let snapshot: CoordinationSnapshotForm = try client.call(.ps)
            #expect(snapshot.isTruncated)
            // This client would refuse a message above the size limit, so the reply was truncated.
            #expect((10..<60).contains(snapshot.presenters.count))
            let kept: VersionListResult = try client.call(
                .listVersions(VersionListParameters(path: Array("many".utf8))))
            #expect(kept.isTruncated)
            #expect((10..<900).contains(kept.entries.count))
            let status: StatusForm = try client.call(.status)
            #expect(status.waiting.count >= 10)
            #expect(status.waiting.first?.claim == 1)
            #expect(status.journal.count >= 10)
            #expect(status.journal.last?.sequence == 2000)
        }
    }

    @Test("a client that sends thousands of messages at once does not delay another client's request")
    func aClientsManyMessagesDelayNoOtherClient() throws {
        try withServer { server in
            let other = try AwareProgram(server)
            let count = 30_000
            let replies = CallTally()
            let talking = try JoinableThread {
                do {
                    let talker = try server.connect()
                    try talker.send(String(repeating: "x\n", count: count))
                    for _ in 0..<count {
                        _ = try talker.line()
                        replies.add()
                    }
                } catch {
                    Issue.record(error)
                }
            }
            try eventually(within: .seconds(10), "the first reply") { replies.count > 0 }
            #expect(try other.unread() == [])
            // The other client has its reply before the server has sent a tenth of the replies to the sending clients.
            #expect(replies.count < count / 10)
            talking.join()
            #expect(replies.count == count)
        }
    }

    @Test("a dead process's connection is closed, even if its child inherited the socket")
    func theConnectionOfADeadProcessIsClosed() throws {
        let log = try withServer { server in
            let script = """
                import os, socket, sys
                s = socket.socket(socket.AF_UNIX)
                s.connect(sys.argv[1])
                f = s.makefile('rw')
                def ask(text):
                    f.write(text + '\\n'); f.flush(); return f.readline()
                ask('{"jsonrpc":"2.0","id":1,"method":"initialize"}')
                ask('{"jsonrpc":"2.0","id":2,"method":"presenter/register","params":{"path":"a","messages":[]}}')
                ask('{"jsonrpc":"2.0","id":3,"method":"access/begin","params":'
                    '{"intents":[{"path":"a","access":"updating"}]}}')
                if os.fork() == 0:
                    os.setsid()
                    # The program ends when the server closes the connection.
                    f.readline()
                    os._exit(0)
                sys.stdin.readline()
                """
            let holder = try Program("python3").start("-c", script, server.path, input: .keyboard)
            let reader = try AwareProgram(server)
            try eventually(within: .seconds(20), "the program to hold its file") {
                let snapshot = server.engine.snapshot(of: nil)
                return snapshot.claims.count == 1 && snapshot.presenters.count == 1
            }
            let begin = try reader.begin("a", .read())
            try holder.type("end\n")
            #expect(try holder.wait(within: .seconds(20)).isSuccess)
            let _: AccessBeginResult = try reader.reply(to: begin)
            #expect(server.engine.snapshot(of: nil).presenters.isEmpty)
        }
        #expect(log.contains { $0.contains("its process has ended") })
    }

    @Test("at the connection limit, the oldest silent connection is closed for a new client")
    func atTheConnectionLimitTheOldestSilentConnectionIsClosed() throws {
        let log = try withServer { server in
            let silent = try (0..<ProtocolLimits.connectionsPerUser).map { _ in try server.connect() }
            let talker = try AwareProgram(server)
            #expect(try talker.unread() == [])
            // Only the oldest connection was closed.
            #expect(try silent[0].receiveToEnd() == [])
            try silent[1].initialize()
        }
        #expect(log.filter { $0.contains("said nothing") }.count == 1)
    }

    @Test("a user without access to the mount gets an error, and many attempts make a single line in the log")
    func aUserWithoutAccessIsRefusedAndLoggedOnce() throws {
        guard geteuid() != 0 else { return try strangersOfAnotherUser() }
        let log = try withServer(user: geteuid() + 1) { server in
            for _ in 0..<100 {
                let answer = String(decoding: try server.connect().receiveToEnd(), as: UTF8.self)
                #expect(answer.contains("-32001"))
            }
        }
        #expect(log.filter { $0.contains("refused") }.count == 1)
    }

    /// The server never limits root's connections, so another user has to connect.
    private func strangersOfAnotherUser() throws {
        let log = try withServer(user: 12345) { server in
            #expect(chmod(server.path, 0o777) == 0)
            var directory = server.path
            while let slash = directory.lastIndex(of: "/"), slash != directory.startIndex {
                directory = String(directory[..<slash])
                if directory != "/tmp" { chmod(directory, 0o755) }
            }
            let script = """
                import os, socket, sys
                os.setuid(54321)
                for _ in range(100):
                    s = socket.socket(socket.AF_UNIX)
                    s.connect(sys.argv[1])
                    text = b''.join(iter(lambda: s.recv(4096), b''))
                    assert b'-32001' in text, text
                """
            _ = try Program("python3").run("-c", script, server.path)
        }
        #expect(log.filter { $0.contains("refused") }.count == 1)
    }

    @Test("presenters get questions in Content-Length framing if their client uses this framing")
    func questionsUseTheClientsFraming() throws {
        try withServer { server in
            let client = try server.connect()
            func send(_ message: String) throws {
                try client.send("Content-Length: \(message.utf8.count)\r\n\r\n\(message)")
            }
            try send(#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#)
            #expect(try client.line().contains("outboxMessages"))
            try send(
                #"{"jsonrpc":"2.0","id":2,"method":"presenter/register","#
                    + #""params":{"path":"a","messages":["save","reacquire"]}}"#)
            #expect(try client.line().contains("presenter"))
            let reader = try AwareProgram(server)
            let begin = try reader.begin("a", .read())
            let question = try client.line()
            #expect(question.contains("presenter/save"))
            let message = try IncomingMessage(decoding: Array(question.utf8))
            guard case .question(.number(let id), _) = message else {
                return #expect(Bool(false), "it is asked by number")
            }
            try send(#"{"jsonrpc":"2.0","id":\#(id),"result":null}"#)
            let _: AccessBeginResult = try reader.reply(to: begin)
        }
    }

    @Test("deeply nested or undecodable messages get an error, and the connection stays open")
    func aMalformedMessageDoesNotCloseTheConnection() throws {
        try withServer { server in
            let client = try server.connect()
            try client.initialize()
            let deep = String(repeating: "[", count: 10_000) + String(repeating: "]", count: 10_000)
            #expect(
                try client.ask(#"{"jsonrpc":"2.0","id":1,"method":"status","params":\#(deep)}"#)
                    .contains("-32700"))
            try client.socket.send([0x7B, 0xFF, 0x7D, 0x0A])
            #expect(try client.line().contains("-32700"))
            #expect(
                try client.ask(#"{"jsonrpc":"2.0","id":1,"method":"why","params":{"path":"a\u0000"}}"#)
                    .contains("-32602"))
            #expect(try client.ask(#"{"jsonrpc":"2.0","id":1,"method":"ps"}"#).contains("claims"))
        }
    }
}

/// Checks the watch that reports to a connection that its client process has ended.
struct ProcessWatchTests {
    @Test("the end of a watched process is reported once; the end of a released process is not reported")
    func theEndOfAWatchedProcessIsReportedOnce() throws {
        let watch = try ProcessWatch()
        defer { watch.stop() }
        let told = ServerLog()
        let first = try Program("cat").start(input: .keyboard)
        let second = try Program("cat").start(input: .keyboard)
        let one = try watch.watch(try OtherProcess.watch(first.pid)) { told.append("first") }
        var other: ProcessWatch.WatchedProcess? = try watch.watch(try OtherProcess.watch(second.pid)) {
            told.append("second")
        }
        #expect(!one.hasEnded && other?.hasEnded == false)
        other = nil
        for program in [second, first] {
            program.endInput()
            #expect(try program.wait(within: .seconds(10)).isSuccess)
        }
        try eventually(within: .seconds(10), "the end to be told") { !told.lines.isEmpty }
        #expect(told.lines == ["first"])
        #expect(one.hasEnded)
        #expect(other == nil)
    }

    @Test("a process that started after a connection was made is not taken for the maker of the connection")
    func aProcessYoungerThanAConnectionIsNotItsMaker() throws {
        let own = try #require(ProcessInspection.status(ofProcess: getpid()))
        let before = BootTicks(ticks: own.started - 1)
        let younger = Result { () throws(Errno) in
            OwnedDescriptorBox(try OtherProcess.watch(getpid(), startedBefore: before))
        }
        #expect(throws: Errno.noProcess) { try younger.get() }
        _ = try OtherProcess.watch(getpid(), startedBefore: BootTicks(ticks: own.started))
        #expect(BootTicks.now >= BootTicks(ticks: own.started))
    }
}

/// A descriptor that the test can close before the box is destroyed.
final class OwnedDescriptorBox {
    private var descriptor: OwnedDescriptor?
    init(_ descriptor: consuming OwnedDescriptor) { self.descriptor = consume descriptor }
    func close() { descriptor = nil }
}
